#!/usr/bin/env python3
"""What is left to libtorch's operators in CUDA packages of the models of ./dev bench cuda models, and in which layouts.

Two layers of each in bfloat16 are exported and compiled, which needs no GPU; the plan that `kiln compile
--keep-source` writes has each step. EXPECTED says for each model which products are computed, which operators are
called how often, how many kernels there are, how many of those only copy, and which tensors of convolutions are not channels-last. An epilogue is part of
an operator's name: `_addmm_activation` is a product with bias and the tanh form of GELU, `cudnn_convolution_add_relu`
a convolution with bias, residual and ReLU.

usage: library_calls.py KILN [NAME...] [--print]
"""

import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
warnings.filterwarnings("ignore")

import torch
import transformers
from programs import Residual
from torch import nn

SMALL = {"vocab_size": 512, "hidden_size": 128, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 512}

# What the container computes by cuBLASLt.
PRODUCTS = {"mm", "addmm", "_addmm_activation"}
# What only moves elements.
COPIES = {"clone", "_to_copy", "copy", "contiguous", "permute", "transpose", "view", "expand", "t"}


class Output(nn.Module):
    """One output of a model that has several."""

    def __init__(self, model, call):
        super().__init__()
        self.model, self.call = model, call

    def forward(self, x):
        return self.call(self.model, x)


def words():
    return torch.randint(512, (2, 64))


def image(size):
    return torch.randn(2, 3, size, size).to(torch.bfloat16)


def gpt2():
    config = transformers.GPT2Config(vocab_size=512, n_embd=128, n_head=2, n_layer=2, use_cache=False)
    return Output(transformers.GPT2LMHeadModel(config), lambda m, x: m(input_ids=x).logits), words()


def bert():
    return Output(transformers.BertModel(transformers.BertConfig(**SMALL)),
                  lambda m, x: m(input_ids=x).last_hidden_state), words()


def vit():
    sizes = SMALL | {"image_size": 64, "patch_size": 16}
    del sizes["vocab_size"]
    return Output(transformers.ViTModel(transformers.ViTConfig(**sizes)),
                  lambda m, x: m(pixel_values=x).last_hidden_state), image(64)


def llama():
    config = transformers.LlamaConfig(**SMALL | {"num_attention_heads": 4, "num_key_value_heads": 2}, use_cache=False)
    return Output(transformers.LlamaForCausalLM(config), lambda m, x: m(input_ids=x).logits), words()


def resnet():
    return Residual(), image(64)


MODELS = {"gpt2": gpt2, "bert": bert, "vit": vit, "llama": llama, "resnet": resnet}
EXPECTED = {
    "gpt2": {
        "products": {"_addmm_activation": 2, "addmm": 6, "mm": 1}, "calls": {"scaled_dot_product_attention": 2},
        "kernels": 8, "copies": 0, "strided": [],
    },
    # GELU by erf is no epilogue of cuBLASLt: a kernel computes it.
    "bert": {
        "products": {"addmm": 12}, "calls": {"scaled_dot_product_attention": 2},
        "kernels": 9, "copies": 0, "strided": [],
    },
    "vit": {
        "products": {"addmm": 12}, "calls": {"convolution": 1, "scaled_dot_product_attention": 2},
        "kernels": 10, "copies": 0, "strided": [],
    },
    # Residuals are added by products. The values of each group of heads are repeated for its heads.
    "llama": {
        "products": {"addmm": 4, "mm": 11}, "calls": {"scaled_dot_product_attention": 2},
        "kernels": 14, "copies": 2, "strided": [],
    },
    "resnet": {
        "products": {}, "calls": {"convolution": 1, "cudnn_convolution_add_relu": 2, "cudnn_convolution_relu": 3},
        "kernels": 2, "copies": 0, "strided": [],
    },
}


def operator_of(node):
    """aten.clone.default (layer.1): clone."""
    return node.split(" ")[0].split(".")[1]


def is_channels_last(value):
    return len(value["sizes"]) != 4 or value["strides"][1] == 1


def found_in(plan):
    calls = collections.Counter(operator_of(step["target"]) for step in plan["steps"] if "target" in step)
    kernels = [{operator_of(node) for node in step["nodes"]} for step in plan["steps"] if "nodes" in step]
    products = collections.Counter(next(iter(operators)) for operators in kernels if operators <= PRODUCTS)
    kernels = [operators for operators in kernels if not operators <= PRODUCTS]
    convolved = [name for step in plan["steps"] if "convolution" in step.get("target", "")
                 for name in step["operands"] + step["results"]]
    return {
        "products": dict(sorted(products.items())),
        "calls": dict(sorted(calls.items())),
        "kernels": len(kernels),
        "copies": sum(operators <= COPIES for operators in kernels),
        "strided": [name for name in convolved if not is_channels_last(plan["values"][name])],
    }


def plan_of(kiln, make, folder):
    torch.manual_seed(0)
    model, x = make()
    archive, sources = folder / "archive.pt2", folder / "sources"
    with torch.no_grad():
        torch.export.save(torch.export.export(model.eval().to(torch.bfloat16), (x,), strict=False), archive)
    subprocess.run([kiln, "compile", archive, "-o", folder / "package.pt2", "--device", "cuda", "--option", "arch=sm_90",
                    "--no-cache", "--keep-source", sources], check=True, capture_output=True)
    return json.loads((sources / "plan.json").read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kiln")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--print", action="store_true")
    args = parser.parse_args()
    failed = 0
    for name in args.names or MODELS:
        with tempfile.TemporaryDirectory() as folder:
            plan = plan_of(args.kiln, MODELS[name], Path(folder))
        found = found_in(plan)
        if args.print:
            print(f'    "{name}": {found},')
        elif found != EXPECTED[name]:
            failed += 1
            print(f"{name}: expected {EXPECTED[name]}\n{' ' * len(name)}  found    {found}")
        else:
            print(f"{name}: ok")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
