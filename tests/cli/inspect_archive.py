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
import zipfile

KILN, MODEL = sys.argv[1:3]


def kiln(*arguments, folder, cache="off"):
    environment = {**os.environ, "KILN_CACHE": cache, "KILN_CACHE_DIR": f"{folder}/cache", "TMPDIR": folder}
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


def on_gpu(model):
    """JSON with the devices that it names replaced."""
    if isinstance(model, list):
        return [on_gpu(item) for item in model]
    if not isinstance(model, dict):
        return model
    if model.keys() == {"type", "index"} and model["type"] == "cpu":
        return {"type": "cuda", "index": 0}
    return {key: on_gpu(value) for key, value in model.items()}


def of_gpu(archive, folder):
    """A copy of `archive` as if it had been exported on a GPU."""
    copy = pathlib.Path(folder) / "gpu_archive.pt2"
    with zipfile.ZipFile(archive) as old, zipfile.ZipFile(copy, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name.endswith("models/model.json"):
                content = json.dumps(on_gpu(json.loads(content)))
            new.writestr(name, content)
    return copy


def device_of(package):
    with zipfile.ZipFile(package) as records:
        name, = (name for name in records.namelist() if name.endswith("_metadata.json"))
        return json.loads(records.read(name))["AOTI_DEVICE_KEY"]


def test_an_archive_of_a_gpu_is_compiled_for_one(folder):
    archive = of_gpu(MODEL, folder)
    assert " cuda = aten." in kiln("inspect", archive, folder=folder).stdout
    options = ["--option", "arch=sm_90", "--json"]
    first, second = (kiln("compile", archive, "-o", f"{folder}/{name}.pt2", *options, folder=folder,
                          cache="write")
                     for name in ("first", "second"))
    assert first.returncode == 0 and second.returncode == 0, first.stderr + second.stderr
    assert not json.loads(first.stdout)["cache_hit"] and json.loads(second.stdout)["cache_hit"]
    assert device_of(f"{folder}/first.pt2") == device_of(f"{folder}/second.pt2") == "cuda"
    # And for the CPU, if that is asked for.
    other = kiln("compile", archive, "-o", f"{folder}/cpu.pt2", "--device", "cpu", folder=folder)
    assert other.returncode == 0, other.stderr
    assert device_of(f"{folder}/cpu.pt2") == "cpu"


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
