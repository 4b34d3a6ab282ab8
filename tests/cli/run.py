"""What `kiln run` takes and gives: None, nothing at all, and files that are not what they should be.

    run.py KILN

Needs torch. Every test is a function.
"""

import json
import os
import subprocess
import sys
import tempfile

import torch

KILN = sys.argv[1]


class WithNone(torch.nn.Module):
    def forward(self, x):
        return x * 2, None


class WithoutInputs(torch.nn.Module):
    def forward(self):
        return torch.arange(4) + 1


def attempt(*arguments, folder):
    environment = {**os.environ, "KILN_CACHE": "off", "TMPDIR": folder}
    return subprocess.run([KILN, *arguments], env=environment, capture_output=True, text=True)


def kiln(*arguments, folder):
    done = attempt(*arguments, folder=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def compiled(folder, module, inputs):
    archive, package = f"{folder}/in.pt2", f"{folder}/out.pt2"
    torch.export.save(torch.export.export(module, inputs), archive)
    kiln("compile", archive, "-o", package, folder=folder)
    return package


def test_none_among_the_outputs_is_shown_and_saved(folder):
    package, saved = compiled(folder, WithNone(), (torch.ones(3),)), f"{folder}/saved.pt"
    rows = json.loads(kiln("run", package, "--save", saved, "--json", folder=folder))
    assert rows[0]["sum"] == 6 and rows[1] == {"output": 1, "type": "none"}, rows
    assert "output 1  none\n" in kiln("run", package, folder=folder)
    doubled, nothing = torch.load(saved)
    assert nothing is None
    torch.testing.assert_close(doubled, torch.full((3,), 2.0))


def test_a_package_without_inputs_runs_and_is_measured(folder):
    package = compiled(folder, WithoutInputs(), ())
    [row] = json.loads(kiln("run", package, "--json", folder=folder))
    assert row["sum"] == 10, row
    kiln("bench", package, "--seconds", "0", "--instances", "1", folder=folder)


for name, test in list(globals().items()):
    if name.startswith("test_"):
        with tempfile.TemporaryDirectory() as scratch:
            test(scratch)
        print("passed", name)
