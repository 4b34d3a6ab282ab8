"""Whole models in bfloat16 on a GPU: a package of Kiln beside torch.compile and eager.

Each is exported on the CPU, compiled by `kiln compile --device cuda` and run by PyTorch's own
aoti_load_package. Times are the median of 30 calls, each until the device has done it; "busy" is what the
device itself took. Errors are relative to the same model in float32.

usage: cuda_models.py KILN [NAME...]
"""

import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
warnings.filterwarnings("ignore")

import torch
import torch._inductor
from torch import nn
from torch.profiler import ProfilerActivity, profile


class Output(nn.Module):
    """One output of a model that has several."""

    def __init__(self, model, call):
        super().__init__()
        self.model, self.call = model, call

    def forward(self, x):
        return self.call(self.model, x)


def gpt2(batch):
    import transformers
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(use_cache=False))
    return Output(model, lambda m, x: m(input_ids=x).logits), torch.randint(50000, (batch, 128))


def bert():
    import transformers
    model = transformers.BertModel(transformers.BertConfig())
    return Output(model, lambda m, x: m(input_ids=x).last_hidden_state), torch.randint(30000, (8, 128))


def vit():
    import transformers
    model = transformers.ViTModel(transformers.ViTConfig())
    return Output(model, lambda m, x: m(pixel_values=x).last_hidden_state), torch.randn(8, 3, 224, 224)


def resnet18():
    import timm
    return timm.create_model("resnet18"), torch.randn(32, 3, 224, 224)


def perceptron():
    layers = [nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024), nn.LayerNorm(1024)]
    return nn.Sequential(*layers), torch.randn(1024, 1024)


MODELS = {"gpt2 8x128": lambda: gpt2(8), "gpt2 1x128": lambda: gpt2(1), "bert 8x128": bert, "vit 8x224": vit,
          "resnet18 32x224": resnet18, "perceptron": perceptron}


def milliseconds(function, x):
    times = []
    for call in range(35):
        start = time.perf_counter()
        function(x)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return sorted(times[5:])[15] * 1e3


def busy_milliseconds(function, x):
    with profile(activities=[ProfilerActivity.CUDA]) as recorded:
        for _ in range(5):
            function(x)
        torch.cuda.synchronize()
    return sum(event.self_device_time_total for event in recorded.key_averages()) / 5e3


def compile_package(kiln, model, x, folder):
    archive, package = folder / "archive.pt2", folder / "package.pt2"
    torch.export.save(torch.export.export(model, (x,), strict=False), archive)
    start = time.time()
    subprocess.run([kiln, "compile", archive, "-o", package, "--device", "cuda", "--no-cache"], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return torch._inductor.aoti_load_package(str(package)), time.time() - start


def error_of(found, exact):
    return ((found.float() - exact).norm() / exact.norm()).item()


def measure(kiln, make, folder):
    torch.manual_seed(0)
    model, x = make()
    model = model.eval().to(torch.bfloat16)
    x = x.to(torch.bfloat16) if x.is_floating_point() else x
    ours, our_compile = compile_package(kiln, model, x, folder)
    model, x = model.cuda(), x.cuda()
    eager_result, result = model(x), ours(x)
    exact = model.float()(x.float() if x.is_floating_point() else x)
    model = model.to(torch.bfloat16)
    torch._dynamo.reset()
    theirs = torch.compile(model)
    start = time.time()
    theirs(x)
    torch.cuda.synchronize()
    their_compile = time.time() - start
    return (milliseconds(ours, x), milliseconds(theirs, x), milliseconds(model, x), busy_milliseconds(ours, x),
            busy_milliseconds(theirs, x), our_compile, their_compile, error_of(result, exact),
            error_of(eager_result, exact))


@torch.no_grad()
def main():
    kiln, names = sys.argv[1], sys.argv[2:] or list(MODELS)
    print(f"{'model':16} {'Kiln ms':>8} {'torch ms':>9} {'eager ms':>9} {'ratio':>6} {'busy ms':>8} {'torch':>6} "
          f"{'compile s':>10} {'torch':>6} {'error':>8} {'eager':>8}")
    ratios = []
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            ours, theirs, eager, busy, their_busy, compiled, their_compiled, error, eager_error = measure(
                kiln, MODELS[name], Path(folder))
        ratios.append(theirs / ours)
        print(f"{name:16} {ours:8.3f} {theirs:9.3f} {eager:9.3f} {theirs / ours:6.2f} {busy:8.3f} {their_busy:6.3f} "
              f"{compiled:10.1f} {their_compiled:6.1f} {error:8.1e} {eager_error:8.1e}", flush=True)
    product = 1.0
    for ratio in ratios:
        product *= ratio
    print(f"geometric mean {product ** (1 / len(ratios)):.2f}x of torch.compile, least {min(ratios):.2f}x")


if __name__ == "__main__":
    main()
