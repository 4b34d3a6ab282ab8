"""What `kiln inspect` shows of an archive: the program that `kiln compile` makes of it.

    inspect_archive.py KILN MODEL.pt2

Every test is a function.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

KILN, MODEL = sys.argv[1:3]


def kiln(*arguments, folder):
    environment = {**os.environ, "KILN_CACHE": "off", "TMPDIR": folder}
    return subprocess.run([KILN, *arguments], env=environment, capture_output=True, text=True)


def test_the_page_of_an_archive_has_the_kernels_of_its_package(folder):
    source, page = pathlib.Path(folder) / "source", pathlib.Path(folder) / "page.html"
    assert kiln("compile", MODEL, "-o", f"{folder}/out.pt2", "--keep-source", source, folder=folder).returncode == 0
    assert kiln("inspect", MODEL, "--html", page, folder=folder).returncode == 0
    compiled = {kernel["name"] for kernel in json.loads((source / "plan.json").read_text())["kernels"]}
    shown = set(re.findall(r"kiln_[0-9a-f]{16}", page.read_text()))
    assert compiled and compiled <= shown, (compiled, shown)


def test_options_of_inspect_that_would_do_nothing_are_refused(folder):
    for options in (["--partition", "--html", f"{folder}/page.html"], ["--unfused"], ["--budget", "0.5"]):
        assert kiln("inspect", MODEL, *options, folder=folder).returncode == 2, options


for name, test in list(globals().items()):
    if name.startswith("test_"):
        with tempfile.TemporaryDirectory() as scratch:
            test(scratch)
        print("passed", name)
