"""The models of ./dev bench cuda models, in bfloat16 with random weights, and what each is called with."""

import os
import warnings

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
warnings.filterwarnings("ignore")

import torch
from torch import nn


class Output(nn.Module):
    """One output of a model that has several."""

    def __init__(self, model, call):
        super().__init__()
        self.model, self.call = model, call

    def forward(self, x):
        return self.call(self.model, x)


def gpt2():
    import transformers
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(use_cache=False))
    return Output(model, lambda m, x: m(input_ids=x).logits)


def bert():
    import transformers
    return Output(transformers.BertModel(transformers.BertConfig()), lambda m, x: m(input_ids=x).last_hidden_state)


def vit():
    import transformers
    return Output(transformers.ViTModel(transformers.ViTConfig()), lambda m, x: m(pixel_values=x).last_hidden_state)


def llama():
    import transformers
    config = transformers.LlamaConfig(hidden_size=1024, intermediate_size=2816, num_hidden_layers=8,
                                      num_attention_heads=16, num_key_value_heads=4, use_cache=False)
    return Output(transformers.LlamaForCausalLM(config), lambda m, x: m(input_ids=x).logits)


def resnet18():
    import timm
    return timm.create_model("resnet18")


def perceptron():
    return nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024), nn.LayerNorm(1024))


def words(*sizes):
    return lambda: torch.randint(30000, sizes)


def numbers(*sizes):
    return lambda: torch.randn(sizes)


# How each is made, and its input.
EXAMPLES = {
    "gpt2 8x128": (gpt2, words(8, 128)),
    "resnet18 32x224": (resnet18, numbers(32, 3, 224, 224)),
    "llama 8x256": (llama, words(8, 256)),
    "bert 8x128": (bert, words(8, 128)),
    "vit 8x224": (vit, numbers(8, 3, 224, 224)),
    "gpt2 1x128": (gpt2, words(1, 128)),
    "perceptron": (perceptron, numbers(1024, 1024)),
}
# It is there to try a change on: no target is set for it.
MEASURED = [name for name in EXAMPLES if name != "perceptron"]


def model_of(name):
    torch.manual_seed(0)
    return EXAMPLES[name][0]().eval().to(torch.bfloat16)


def input_of(name):
    torch.manual_seed(1)
    x = EXAMPLES[name][1]()
    return x.to(torch.bfloat16) if x.is_floating_point() else x
