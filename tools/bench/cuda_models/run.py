"""Whole models in bfloat16 on a GPU: a package of Kiln beside torch.compile and eager.

Each is exported on the CPU and compiled by `kiln compile --device cuda`. "plain" is the package in PyTorch's
own aoti_load_package beside torch.compile's default mode; "graphs" is `kiln bench --cuda-graphs on` beside
mode="reduce-overhead". Times are medians in milliseconds, each call until the device has done it; "busy" is
what the device itself took, "compile" is in seconds. Errors are relative to the same model in float32.

usage: cuda_models.py KILN [NAME...] [--json FILE]
"""

import argparse
import json
import math
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


def llama():
    import transformers
    config = transformers.LlamaConfig(hidden_size=1024, intermediate_size=2816, num_hidden_layers=8,
                                      num_attention_heads=16, num_key_value_heads=4, use_cache=False)
    return Output(transformers.LlamaForCausalLM(config), lambda m, x: m(input_ids=x).logits), torch.randint(
        30000, (8, 256))


def perceptron():
    layers = [nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024), nn.LayerNorm(1024)]
    return nn.Sequential(*layers), torch.randn(1024, 1024)


MODELS = {"gpt2 8x128": lambda: gpt2(8), "gpt2 1x128": lambda: gpt2(1), "bert 8x128": bert, "vit 8x224": vit,
          "llama 8x256": llama, "resnet18 32x224": resnet18, "perceptron": perceptron}


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
    return package, time.time() - start


def replayed_milliseconds(kiln, package):
    done = subprocess.run([kiln, "bench", package, "--cuda-graphs", "on", "--instances", "1", "--seconds", "0.5", "--json"],
                          check=True, capture_output=True, text=True)
    measured = json.loads(done.stdout)
    if measured.get("cuda_graphs", {}).get("refusals"):
        raise RuntimeError(f"not captured: {measured['cuda_graphs']['refusals']}")
    return measured["p50_us"] / 1e3


def compiled(model, x, **options):
    """What torch.compile makes, and the seconds of its first call."""
    torch._dynamo.reset()
    function = torch.compile(model, **options)
    start = time.time()
    function(x)
    torch.cuda.synchronize()
    return function, time.time() - start


def error_of(found, exact):
    return ((found.float() - exact).norm() / exact.norm()).item()


def example(name):
    """A model in bfloat16, and what it is called with."""
    torch.manual_seed(0)
    model, x = MODELS[name]()
    return model.eval().to(torch.bfloat16), x.to(torch.bfloat16) if x.is_floating_point() else x


def measure(kiln, name, folder):
    model, x = example(name)
    package, seconds = compile_package(kiln, model, x, folder)
    result = {"compile_s": seconds, "graphs": replayed_milliseconds(kiln, package)}
    ours = torch._inductor.aoti_load_package(str(package))
    model, x = model.cuda(), x.cuda()
    eager_result, found = model(x).clone(), ours(x).clone()
    exact = model.float()(x.float() if x.is_floating_point() else x)
    model = model.to(torch.bfloat16)
    result |= {"error": error_of(found, exact), "eager_error": error_of(eager_result, exact),
               "plain": milliseconds(ours, x), "busy": busy_milliseconds(ours, x), "eager": milliseconds(model, x)}
    theirs, result["torch_compile_s"] = compiled(model, x)
    result |= {"torch_plain": milliseconds(theirs, x), "torch_busy": busy_milliseconds(theirs, x)}
    theirs, _ = compiled(model, x, mode="reduce-overhead")
    result["torch_graphs"] = milliseconds(theirs, x)
    return result


def row(name, found):
    return (f"{name:16} {found['graphs']:6.3f} {found['torch_graphs']:6.3f} "
            f"{found['torch_graphs'] / found['graphs']:5.2f}  {found['plain']:6.3f} {found['torch_plain']:6.3f} "
            f"{found['torch_plain'] / found['plain']:5.2f}  {found['eager']:6.3f}  {found['busy']:6.3f} "
            f"{found['torch_busy']:6.3f}  {found['compile_s']:7.1f} {found['torch_compile_s']:5.1f}  "
            f"{found['error']:.1e} {found['eager_error']:.1e}")


def geometric_mean(numbers):
    return math.exp(sum(math.log(number) for number in numbers) / len(numbers))


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kiln")
    parser.add_argument("names", nargs="*", choices=[[], *MODELS], metavar="NAME")
    parser.add_argument("--json")
    args = parser.parse_args()
    print(f"{'':16} {'graphs':>6} {'torch':>6} {'ratio':>5}  {'plain':>6} {'torch':>6} {'ratio':>5}  {'eager':>6}  "
          f"{'busy':>6} {'torch':>6}  {'compile':>7} {'torch':>5}  {'error':>7} {'eager':>7}")
    results = {}
    for name in args.names or MODELS:
        with tempfile.TemporaryDirectory() as folder:
            found = results[name] = measure(args.kiln, name, Path(folder))
        print(row(name, found), flush=True)
        if args.json:
            Path(args.json).write_text(json.dumps(results, indent=2) + "\n")
    for mode, peer in (("graphs", "reduce-overhead"), ("plain", "torch.compile")):
        ratios = [found[f"torch_{mode}"] / found[mode] for found in results.values()]
        print(f"{mode}: geometric mean {geometric_mean(ratios):.2f}x of {peer}, least {min(ratios):.2f}x")


if __name__ == "__main__":
    main()
