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


def stage(name, *options, folder):
    done = kiln("inspect", MODEL, "--stage", name, *options, folder=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_each_stage_of_an_archive_is_printed(folder):
    graph, loops, schedule, source = (stage(name, "--isa", "x86-64-v3", folder=folder)
                                      for name in ("graph", "loops", "schedule", "source"))
    assert graph.startswith("graph ") and "aten." in graph, graph
    nodes = re.findall(r" = (aten\.\S+)\(", graph)
    assert nodes == re.findall(r"^# .* = (aten\.\S+)\(", loops, re.M), loops
    assert re.search(r"^t0 = memory f32\[", loops, re.M), loops
    assert schedule.startswith("schedule ") and re.search(r"^  nest .* {$", schedule, re.M), schedule
    assert re.search(r"^    for . < ", schedule, re.M), schedule
    assert source.startswith("// model.cpp\n") and "// kernels0.cpp\n" in source, source


def test_the_source_is_that_of_the_package(folder):
    kept = pathlib.Path(folder) / "source"
    assert kiln("compile", MODEL, "-o", f"{folder}/out.pt2", "--keep-source", kept, folder=folder).returncode == 0
    units = re.split(r"^// (model|kernels\d+)\.cpp\n", stage("source", folder=folder), flags=re.M)[1:]
    shown = dict(zip(units[::2], units[1::2]))
    assert shown == {file.stem: file.read_text() for file in kept.glob("*.cpp")}, shown.keys()


def test_stages_are_shown_for_gpus_where_there_is_none(folder):
    graph, schedule, source = (stage(name, "--arch", "sm_80,sm_90", folder=folder)
                               for name in ("graph", "schedule", "source"))
    assert " cuda = aten." in graph, graph
    assert schedule.startswith("schedule "), schedule
    assert "// kernels0.cu\n" in source and "__global__" in source, source


def test_only_an_archive_has_stages(folder):
    assert kiln("compile", MODEL, "-o", f"{folder}/out.pt2", folder=folder).returncode == 0
    done = kiln("inspect", f"{folder}/out.pt2", "--stage", "graph", folder=folder)
    assert done.returncode != 0 and "keeps no graph" in done.stderr, done.stderr


def test_options_of_inspect_that_would_do_nothing_are_refused(folder):
    for options in (["--partition", "--html", f"{folder}/page.html"], ["--unfused"], ["--budget", "0.5"],
                    ["--isa", "neon"], ["--arch", "sm_90"], ["--stage", "graph", "--arch", "sm_90", "--isa", "neon"],
                    ["--stage", "source", "--json"],
                    ["--stage", "loops", "--html", f"{folder}/page.html"]):
        assert kiln("inspect", MODEL, *options, folder=folder).returncode == 2, options


for name, test in list(globals().items()):
    if name.startswith("test_"):
        with tempfile.TemporaryDirectory() as scratch:
            test(scratch)
        print("passed", name)
