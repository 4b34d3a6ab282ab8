"""Compiles a small model with PyTorch's AOTInductor: relu(fc(x)), then an op that only the host has.

usage: compile_theirs.py PACKAGE
"""

import sys

import torch

torch.library.define("kiln_test::twice", "(Tensor x) -> Tensor")
torch.library.impl("kiln_test::twice", "CPU")(lambda x: x * 2)
torch.library.register_fake("kiln_test::twice")(lambda x: torch.empty_like(x))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(16, 12)  # AOTInductor turns a bias of 8 or fewer into literals

    def forward(self, x):
        return torch.ops.kiln_test.twice(torch.relu(self.fc(x)))


program = torch.export.export(Model().eval(), (torch.ones(2, 16),))
torch._inductor.aoti_compile_and_package(program, package_path=sys.argv[1])
