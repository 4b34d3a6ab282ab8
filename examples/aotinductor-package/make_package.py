"""Makes a package with PyTorch's AOTInductor, and what it should answer.

    python make_package.py FOLDER
"""

import pathlib
import sys

import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(16, 4)

    def forward(self, x):
        return torch.softmax(self.linear(x), 1)


folder = pathlib.Path(sys.argv[1])
model = Model().eval()
x = torch.randn(8, 16)
with torch.no_grad():
    program = torch.export.export(model, (x,))
    torch._inductor.aoti_compile_and_package(program, package_path=str(folder / "theirs.pt2"))
    torch.save([x, model(x)], folder / "example.pt")
