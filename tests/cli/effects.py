"""Archives of programs that print: what is printed is printed by a run, once, and by nothing else.

    effects.py KILN

Needs torch. Every test is a function.
"""

import pathlib
import subprocess
import sys
import tempfile

import torch

KILN = sys.argv[1]
TEXT = "printed once"


class Printing(torch.nn.Module):
    def forward(self, x):
        torch.ops.aten._print(TEXT)
        return x * 2


def output_of(*arguments):
    done = subprocess.run(list(map(str, arguments)), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def check(folder, program):
    archive, package = pathlib.Path(folder, "in.pt2"), pathlib.Path(folder, "out.pt2")
    torch.export.save(program, archive)
    compiled = output_of(KILN, "compile", archive, "-o", package, "--no-cache")
    assert TEXT not in compiled, compiled
    assert output_of(KILN, "run", package).count(TEXT) == 1
    load = f"import torch; torch._inductor.aoti_load_package({str(package)!r})(torch.ones(3))"
    assert output_of(sys.executable, "-c", load).count(TEXT) == 1


def test_a_program_as_it_was_exported(folder):
    check(folder, torch.export.export(Printing(), (torch.ones(3),)))


def test_a_program_with_effect_tokens(folder):
    program = torch.export.export(Printing(), (torch.ones(3),)).run_decompositions()
    assert "with_effects" in str(program.graph)
    check(folder, program)


for name, test in list(globals().items()):
    if name.startswith("test_"):
        with tempfile.TemporaryDirectory() as scratch:
            test(scratch)
        print("passed", name)
