"""What `kiln bisect` compares: integers exactly, and inputs that a program writes.

    bisect_dump.py KILN

Needs torch. Every test is a function.
"""

import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile

import torch

KILN = sys.argv[1]


class PlusOne(torch.nn.Module):
    def forward(self, x):
        return x + 1


class Adding(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x):
        self.total.add_(x)
        return x * 2


class Packed(torch.nn.Module):
    """A convolution and a product, whose weights are packed where there are kernels for that."""

    def __init__(self):
        super().__init__()
        self.convolution, self.linear = torch.nn.Conv2d(8, 32, 3), torch.nn.Linear(32, 64)

    def forward(self, x):
        return self.linear(self.convolution(x).relu().mean((2, 3)))


class Scores(torch.nn.Module):
    """Sizes in products, in rows that are summed, in a view and as numbers."""

    def forward(self, x):
        scores = (x.t() @ x).softmax(-1) * x.size(0)
        return scores.flatten() + 1, torch.cat([x, x * 2]).sum(1)


def kiln(*arguments, folder, **more):
    environment = {**os.environ, "TMPDIR": folder, **more}
    return subprocess.run([KILN, *map(str, arguments)], env=environment, capture_output=True, text=True)


def dump_of(folder, module, x, dims=None):
    """Compiles it and gives the folder of its dump."""
    archive, dumps = f"{folder}/in.pt2", pathlib.Path(folder, "dumps")
    torch.export.save(torch.export.export(module, (x,), dynamic_shapes=dims), archive)
    done = kiln("compile", archive, "-o", f"{folder}/out.pt2", folder=folder, KILN_DUMP=str(dumps))
    assert done.returncode == 0, done.stderr
    [dump] = dumps.iterdir()
    return dump


def add_one_to_element_7(source):
    """In what the only kernel, of integers, writes."""
    plan = json.loads((source / "plan.json").read_text())
    [name] = [kernel["name"] for kernel in plan["kernels"]]
    [step] = plan["steps"]
    [written] = [i for i, operand in enumerate(step["operands"]) if operand["written"]]
    text = (source / "kernels0.cpp").read_text()
    assert f"void {name}(" in text
    text = text.replace(f"void {name}(", f"void {name}_right(")
    text += (f'extern "C" void {name}_right(void* const*, const long long*);\n'
             f'extern "C" void {name}(void* const* buffers, const long long* sizes) {{\n'
             f"  {name}_right(buffers, sizes);\n  ((long long*)buffers[{written}])[7] += 1;\n}}\n")
    (source / "kernels0.cpp").write_text(text)


def test_integers_that_are_one_double_are_told_apart(folder):
    dump = dump_of(folder, PlusOne(), torch.full((16,), 2**53 - 1))
    assert kiln("bisect", dump, folder=folder).returncode == 0
    add_one_to_element_7(dump / "source")
    found = kiln("bisect", dump, "--json", folder=folder)
    assert found.returncode == 3, found.stdout + found.stderr
    [difference] = json.loads(found.stdout)["first_wrong"]["differences"]
    assert (difference["count"], difference["first_element"], difference["largest"]) == (1, 7, 1), difference


def test_inputs_that_a_program_writes_are_compared(folder):
    found = kiln("bisect", dump_of(folder, Adding(), torch.ones(3)), "--json", folder=folder)
    assert found.returncode == 0, found.stdout + found.stderr
    assert json.loads(found.stdout)["outputs_checked"] == 2, found.stdout


def has_panels():
    """Whether Kiln packs weights for this machine: on AArch64 and with AVX-512."""
    flags = pathlib.Path("/proc/cpuinfo").read_text().split()
    return platform.machine() == "aarch64" or {"avx512f", "avx512vl", "avx512bw"} <= set(flags)


def test_packed_weights_are_interpreted(folder):
    with torch.no_grad():
        dump = dump_of(folder, Packed().eval(), torch.randn(4, 8, 9, 9))
    if has_panels():
        graph = (dump / "source" / "graph.kir").read_text()
        assert "= kiln.packed_mm.default(" in graph and "= kiln.packed_convolution.default(" in graph, graph
    found = kiln("bisect", dump, "--json", folder=folder)
    assert found.returncode == 0, found.stdout + found.stderr
    assert json.loads(found.stdout)["outputs_checked"] == 1, found.stdout


def test_sizes_that_vary_are_those_of_the_inputs(folder):
    rows, columns = torch.export.Dim("rows", min=2, max=64), torch.export.Dim("columns", min=2, max=64)
    dump = dump_of(folder, Scores(), torch.randn(4, 6), ({0: rows, 1: columns},))
    assert "symbol %" in (dump / "program.kir").read_text()
    given = f"{folder}/given.pt"
    for sizes in (None, (4, 6), (2, 2), (64, 64), (7, 33), (33, 2)):
        inputs = []
        if sizes:
            torch.save((torch.randn(sizes),), given)
            inputs = ["--inputs", given]
        found = kiln("bisect", dump, *inputs, "--json", folder=folder)
        assert found.returncode == 0, (sizes, found.stdout + found.stderr)
        assert json.loads(found.stdout)["outputs_checked"] == 2, found.stdout
    torch.save((torch.randn(65, 6),), given)
    refused = kiln("bisect", dump, "--inputs", given, folder=folder)
    assert refused.returncode == 1 and "is 65, must be 2 … 64" in refused.stderr, refused.stderr


def test_a_wrong_kernel_is_found_at_a_size_that_it_was_not_dumped_with(folder):
    dump = dump_of(folder, PlusOne(), torch.arange(16), ({0: torch.export.Dim("n", min=8, max=64)},))
    add_one_to_element_7(dump / "source")
    given = f"{folder}/given.pt"
    torch.save((torch.arange(23),), given)
    found = kiln("bisect", dump, "--inputs", given, "--json", folder=folder)
    assert found.returncode == 3, found.stdout + found.stderr
    [difference] = json.loads(found.stdout)["first_wrong"]["differences"]
    assert (difference["count"], difference["first_element"], difference["largest"]) == (1, 7, 1), difference


def test_a_tolerance_is_not_negative(folder):
    for tolerance in ("-1", "nan", "much"):
        refused = kiln("bisect", folder, "--tolerance", tolerance, folder=folder)
        assert refused.returncode == 2 and "is not a tolerance" in refused.stderr, refused.stderr


for test_name, test in list(globals().items()):
    if test_name.startswith("test_"):
        with tempfile.TemporaryDirectory() as scratch:
            test(scratch)
        print("passed", test_name)
