"""On a GPU: PyTorch's own runner on a library that Kiln made, and a package that AOTInductor makes for Kiln's.

usage: both_on_gpu.py LIBRARY PACKAGE   (the model of tests/models/affine_cuda.cpp; the package is written)
"""

import sys

import torch


def affine(x, scale, shift):
    return 2 * scale * x + shift


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(16, 12)

    def forward(self, x):
        return torch.relu(self.fc(x))


def check_runner(library):
    runner = torch._C._aoti.AOTIModelContainerRunnerCuda(library, 2, "cuda:0", "")
    x = torch.rand(3, 4, device="cuda")
    scale = torch.tensor([1.0, 2, 3, 4], device="cuda")
    shift = torch.tensor([10.0, 20, 30, 40], device="cuda")
    torch.testing.assert_close(runner.run([x])[0], affine(x, scale, shift))
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.testing.assert_close(runner.run([x])[0], affine(x, scale, shift))
    scale = torch.rand(4, device="cuda")
    runner.update_constant_buffer({"c_scale": scale}, True, True)
    runner.swap_constant_buffer()
    torch.testing.assert_close(runner.run([x])[0], affine(x, scale, shift))


check_runner(sys.argv[1])
with torch.no_grad():
    program = torch.export.export(Model().cuda().eval(), (torch.ones(8, 16, device="cuda"),))
    torch._inductor.aoti_compile_and_package(program, package_path=sys.argv[2])
