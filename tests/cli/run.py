"""What `kiln run` takes and gives: None, nothing at all, and files that are not what they should be.

    run.py KILN

Needs torch. Every test is a function.
"""

import json
import os
import pathlib
import re
import struct
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


def npy(header, elements=b"", length=None):
    text = header.encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text) if length is None else length) + text + elements


def test_a_profile_is_that_of_the_sizes_of_the_call(folder):
    archive, package = f"{folder}/in.pt2", f"{folder}/out.pt2"
    rows = torch.export.Dim("rows", min=2, max=100_000)
    program = torch.export.export(WithNone(), (torch.ones(3, 8),), dynamic_shapes=({0: rows},))
    torch.export.save(program, archive)
    kiln("compile", archive, "-o", package, "--option", "profile=true", folder=folder)

    def bytes_of(*sizes):
        done = json.loads(kiln("bench", package, "--profile", "--seconds", "0.1", "--json", *sizes, folder=folder))
        return [kernel["bytes"] for kernel in done["kernels"]]

    refused = attempt("bench", package, "--profile", "--size", "columns=4", folder=folder)
    assert refused.returncode == 1 and "no size 'columns' that varies" in refused.stderr, refused.stderr
    symbol = re.search(r"it has (\w+),", refused.stderr).group(1)
    assert bytes_of() == [2 * 4 * 3 * 8], bytes_of()
    assert bytes_of("--size", f"{symbol}=50000") == [2 * 4 * 50_000 * 8]


def test_a_damaged_array_is_refused(folder):
    package, array = pathlib.Path(folder, "any.pt2"), pathlib.Path(folder, "x.npy")
    package.touch()  # Inputs are read before it is.
    form = "{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }"
    for content, said in ((b"text", "is not a .npy file"),
                          (b"\x93NUMPY\x01", "is truncated"),
                          (npy(form % "3,", bytes(100), length=65535), "is truncated"),
                          (npy("{'descr':"), "has no 'descr'"),
                          (npy("{'descr': '<f4'"), "breaks off in 'descr'"),
                          (npy(form % "99999999999999999999,", bytes(12)), "has a shape that cannot be read"),
                          (npy(form % "4294967296, 4294967296", bytes(12)), "is truncated"),
                          (npy(form % "4,", bytes(12)), "is truncated"),
                          (npy(form.replace("<f4", "<c8") % "1,", bytes(8)), "elements of type '<c8'"),
                          (npy(form.replace("False", "True") % "1,", bytes(4)), "Fortran's order")):
        array.write_bytes(content)
        refused = attempt("run", str(package), "--inputs", str(array), folder=folder)
        assert refused.returncode == 1 and f"{array} " in refused.stderr, (content, refused.stderr)
        assert said in refused.stderr, (said, refused.stderr)


def test_an_array_of_numpy_is_an_input(folder):
    package, array = compiled(folder, WithNone(), (torch.ones(3),)), pathlib.Path(folder, "x.npy")
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }\n"
    array.write_bytes(npy(header, struct.pack("<3f", 1, 2, 4)))
    rows = json.loads(kiln("run", package, "--inputs", str(array), "--json", folder=folder))
    assert rows[0]["sum"] == 14, rows


for name, test in list(globals().items()):
    if name.startswith("test_"):
        with tempfile.TemporaryDirectory() as scratch:
            test(scratch)
        print("passed", name)
