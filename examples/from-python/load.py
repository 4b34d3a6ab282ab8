"""A package of Kiln in Python: PyTorch's own loader takes it.

    python load.py model.pt2 compiled.pt2

The first file is the program (kiln::save_program), which torch.export loads; the second is what Kiln
compiled it to. Needs nothing of Kiln.
"""

import sys

import torch

program = torch.export.load(sys.argv[1])
model = torch._inductor.aoti_load_package(sys.argv[2])
x = torch.randn(1, 64)
difference = (model(x) - program.module()(x)).abs().max().item()
print("as PyTorch says" if difference < 1e-4 else f"NOT as PyTorch says: {difference}")
sys.exit(difference >= 1e-4)
