"""What `kiln inspect` shows of programs that return numbers and None, or have weights that overlap themselves.

    inspect_outputs.py KILN

Every test is a function. The archives are torch.export's.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import torch

KILN = sys.argv[1]


class ReturnsMore(torch.nn.Module):
    """One result is a tensor; the others are a number, None and a flag."""

    def forward(self, x):
        return x * 2, 3, None, True


class Expanded(torch.nn.Module):
    """A parameter of which every row is the same memory."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(1, 4).expand(3, 4))

    def forward(self, x):
        return x + self.weight * 2


class ExpandedTwice(torch.nn.Module):
    """The same beside a second tensor on that memory, which a package does not take."""

    def __init__(self):
        super().__init__()
        row = torch.randn(1, 4)
        self.register_buffer("row", row)
        self.register_buffer("rows", row.expand(300, 4))

    def forward(self, x):
        return x + self.row + self.rows


def kiln(*arguments, folder):
    environment = {**os.environ, "KILN_CACHE": "off", "TMPDIR": folder}
    return subprocess.run([KILN, *arguments], env=environment, capture_output=True, text=True)


def archive(module, example, folder, **options):
    path = f"{folder}/model.pt2"
    torch.export.save(torch.export.export(module, example, **options), path)
    return path


def kernels_of_package(model, folder):
    source = pathlib.Path(folder) / "source"
    done = kiln("compile", model, "-o", f"{folder}/out.pt2", "--keep-source", source, folder=folder)
    assert done.returncode == 0, done.stderr
    return {kernel["name"] for kernel in json.loads((source / "plan.json").read_text())["kernels"]}


def check_page(model, folder):
    page = pathlib.Path(folder) / "page.html"
    done = kiln("inspect", model, "--html", page, folder=folder)
    assert done.returncode == 0, done.stderr
    compiled = kernels_of_package(model, folder)
    shown = set(re.findall(r"kiln_[0-9a-f]{16}", page.read_text()))
    assert compiled and compiled == shown, (compiled, shown)


def test_numbers_are_on_the_page(folder):
    check_page(archive(ReturnsMore(), (torch.randn(3, 4),), folder), folder)


def test_numbers_are_in_the_picture(folder):
    model, drawing = archive(ReturnsMore(), (torch.randn(3, 4),), folder), pathlib.Path(folder) / "steps.svg"
    done = kiln("inspect", model, "--svg", drawing, folder=folder)
    assert done.returncode == 0, done.stderr
    assert drawing.read_text().count("full") >= 2, "the number and the flag are not drawn"


class TwoSteps(torch.nn.Module):
    """Two products with a temporary between them."""

    def forward(self, x, w):
        return torch.softmax(x @ w, 1) @ w


def test_sizes_that_vary_are_shown_for_the_example(folder):
    rows = torch.export.Dim("rows", min=1, max=512)
    model = archive(TwoSteps(), (torch.randn(6, 32), torch.randn(32, 32)), folder,
                    dynamic_shapes=({0: rows}, None))
    check_page(model, folder)
    page = (pathlib.Path(folder) / "page.html").read_text()
    assert re.search(r"Bytes are those of the example: \w+ = 6<", page), page[:3000]
    assert re.search(r"The arena has [1-9]", page), page[:3000]
    drawing = pathlib.Path(folder) / "steps.svg"
    done = kiln("inspect", model, "--svg", drawing, folder=folder)
    assert done.returncode == 0, done.stderr
    assert "768 B" in drawing.read_text(), "the bytes of 6 rows are not on an edge"


def test_a_weight_that_overlaps_itself_is_on_the_page(folder):
    check_page(archive(Expanded(), (torch.randn(3, 4),), folder), folder)


def stage(model, name, isa, folder):
    done = kiln("inspect", model, "--stage", name, "--isa", isa, folder=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_stage_is_planned_for_an_instruction_set(folder):
    model = archive(torch.nn.Linear(64, 32), (torch.randn(16, 64),), folder)
    assert "kernel packed_gemm<8>" in stage(model, "schedule", "neon", folder)
    assert "call " in stage(model, "schedule", "x86-64-v3", folder)


def test_what_is_computed_from_constants_is_a_graph_of_its_own(folder):
    model = archive(torch.nn.Linear(64, 32), (torch.randn(16, 64),), folder)
    for name, count in (("graph", 2), ("schedule", 2)):
        assert len(re.findall(f"^{name} ", stage(model, name, "neon", folder), re.M)) == count
    assert "computed from constants" not in stage(model, "graph", "x86-64-v3", folder)


def test_what_compile_refuses_is_refused_with_the_same_words(folder):
    model = archive(ExpandedTwice(), (torch.randn(300, 4),), folder)
    compiled = kiln("compile", model, "-o", f"{folder}/out.pt2", folder=folder)
    shown = kiln("inspect", model, "--html", f"{folder}/page.html", folder=folder)
    assert "not a dense tensor" in compiled.stderr, compiled.stderr
    assert compiled.returncode == shown.returncode != 0, shown.stdout
    assert shown.stderr.splitlines()[-1] == compiled.stderr.splitlines()[-1], (shown.stderr, compiled.stderr)


for name, test in list(globals().items()):
    if name.startswith("test_"):
        with tempfile.TemporaryDirectory() as scratch:
            test(scratch)
        print("passed", name)
