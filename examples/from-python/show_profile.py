"""A package that was compiled with `--option profile=true`, in PyTorch's profiler.

    python show_profile.py profiled.pt2
"""

import sys

import torch

model = torch._inductor.aoti_load_package(sys.argv[1])
x = torch.randn(1, 64)
model(x)
with torch.profiler.profile() as profile:
    model(x)
for event in profile.key_averages():
    if event.key.startswith("kiln_"):
        print(event.key)
