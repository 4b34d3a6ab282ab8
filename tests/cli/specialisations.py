"""What is said of an archive whose sizes may vary, and of those that are fixed all the same.

    specialisations.py KILN

Needs torch. Every test is a function.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import torch

KILN = sys.argv[1]


class Masked(torch.nn.Module):
    def forward(self, ids, mask, weight):
        return ids * mask[:, 1:] + weight


class Scaled(torch.nn.Module):
    """By a number that varies with sizes and for which there is no formula."""

    def forward(self, ids, mask, weight):
        return (ids * mask[:, 1:] + weight) * (ids.size(0) ** 0.3 + ids.size(1) ** 0.1)


class Repeated(torch.nn.Module):
    def forward(self, x, times: int):
        return x.repeat(times)


class Rectified(torch.nn.Module):
    def forward(self, x):
        return x.relu()


def attempt(*arguments, folder, **more):
    environment = {**os.environ, "KILN_CACHE_DIR": f"{folder}/cache", "TMPDIR": str(folder), **more}
    return subprocess.run([KILN, *map(str, arguments)], env=environment, capture_output=True, text=True)


def kiln(*arguments, folder, **more):
    result = attempt(*arguments, folder=folder, **more)
    assert result.returncode == 0, result.stderr
    return result


def refusal(*arguments, folder):
    result = attempt(*arguments, folder=folder)
    assert result.returncode == 1, (result.returncode, result.stderr)
    return result.stderr


def archive_with_dims(folder, module):
    rows = torch.export.Dim("rows", min=2, max=64)
    columns = torch.export.Dim("columns", min=3)
    path = pathlib.Path(folder) / "dims.pt2"
    program = torch.export.export(
        module,
        (torch.randn(4, 10), torch.randn(4, 11), torch.randn(10)),
        dynamic_shapes=({0: rows, 1: columns}, {0: rows, 1: columns + 1}, {0: columns}),
    )
    torch.export.save(program, path)
    return path


def expected_dims():
    """Without the symbols, which PyTorch names."""
    return [
        ("ids", 0, "[2, 64]", 4),
        ("ids", 1, "[3, inf)", 10),
        ("mask", 0, "[2, 64]", 4),
        ("mask", 1, "[3, inf)", 11),
        ("weight", 0, "[3, inf)", 10),
    ]


def check_dims(sentences):
    """A sentence for each dimension, then one for each symbol that says why."""
    assert len(sentences) == len(expected_dims()) + 2, sentences
    for reason in sentences[-2:]:
        assert "aten.mul" in reason and "the argument other" in reason, reason
    for sentence, (name, dimension, span, size) in zip(sentences, expected_dims()):
        assert sentence.startswith(f"input '{name}', dimension {dimension}: "), sentence
        assert sentence.endswith(f" in {span}, fixed at {size}"), sentence
    assert "+ 1 with" in sentences[3], sentences[3]


def test_a_size_that_varies_is_compiled_without_a_word_and_shown(folder):
    archive = archive_with_dims(folder, Masked())
    for number in range(2):  # The second is found in the cache.
        done = kiln("compile", archive, "-o", f"{folder}/out{number}.pt2", "--json", folder=folder)
        assert json.loads(done.stdout)["specialisations"] == [], done.stdout
        assert "warning" not in done.stderr, done.stderr
    graph = json.loads(kiln("inspect", archive, "--json", folder=folder).stdout)["graph"]
    assert " in [2, 64]" in graph and graph.count("symbol %") == 2, graph


def test_a_compile_warns_once_and_names_every_dimension_that_is_fixed(folder):
    archive = archive_with_dims(folder, Scaled())
    for number in range(2):  # The second is found in the cache.
        done = kiln("compile", archive, "-o", f"{folder}/out{number}.pt2", "--json", folder=folder)
        report = json.loads(done.stdout)
        assert report["cache_hit"] == (number == 1)
        check_dims(report["specialisations"])
        warnings = [line for line in done.stderr.splitlines() if "fixed at" in line]
        assert len(warnings) == 1 and "warning" in warnings[0], done.stderr
        for sentence in report["specialisations"]:
            assert sentence in warnings[0], warnings[0]


def test_inspecting_the_archive_and_the_package_shows_them(folder):
    archive = archive_with_dims(folder, Scaled())
    kiln("compile", archive, "-o", f"{folder}/out.pt2", folder=folder)
    described = json.loads(kiln("inspect", archive, "--json", folder=folder).stdout)
    check_dims(described["specialisations"])
    shown = kiln("inspect", archive, folder=folder).stdout
    package = kiln("inspect", f"{folder}/out.pt2", folder=folder).stdout
    for sentence in described["specialisations"]:
        assert sentence in shown, shown
        assert sentence in package, package


def test_an_integer_that_varies_is_an_input_of_the_package(folder):
    path = pathlib.Path(folder) / "integer.pt2"
    program = torch.export.export(
        Repeated(), (torch.randn(3), 5), dynamic_shapes=(None, torch.export.Dim.DYNAMIC)
    )
    torch.export.save(program, path)
    package = f"{folder}/integer.out.pt2"
    kiln("compile", path, "-o", package, folder=folder)
    assert "which is times: " in kiln("inspect", package, folder=folder).stdout
    assert "f32[15]" in kiln("run", package, folder=folder).stdout
    assert "f32[21]" in kiln("run", package, "--size", "times=7", folder=folder).stdout


def repeated(tensor, sizes):
    """Its own rows, over and over, until it has these sizes."""
    for dimension, size in enumerate(sizes):
        tensor = tensor.index_select(dimension, torch.arange(size) % tensor.size(dimension))
    return tensor


def test_a_package_runs_at_other_sizes_than_its_samples(folder):
    package, saved = f"{folder}/out.pt2", f"{folder}/saved.pt"
    archive = archive_with_dims(folder, Masked())
    kiln("compile", archive, "-o", package, folder=folder)
    samples = torch.export.load(archive).example_inputs[0]
    for asked, (rows, columns) in ((["ids[0]=7"], (7, 10)), (["ids[1]=5", "mask[0]=2"], (2, 5)), (["mask[1]=24"], (4, 23))):
        sizes = [word for size in asked for word in ("--size", size)]
        kiln("run", package, *sizes, "--save", saved, folder=folder)
        inputs = [repeated(sample, shape) for sample, shape in
                  zip(samples, ((rows, columns), (rows, columns + 1), (columns,)), strict=True)]
        [output] = torch.load(saved)
        torch.testing.assert_close(output, Masked()(*inputs))
    measured = kiln("bench", package, "--size", "ids[0]=7", "--seconds", "0", "--instances", "1", "--json", folder=folder)
    assert json.loads(measured.stdout)["calls"] == 1
    shown = kiln("inspect", package, folder=folder).stdout
    assert ", which is ids[0] and mask[0]: 2 … 64" in shown, shown


def test_sizes_that_a_package_does_not_have_are_refused(folder):
    package, fixed = f"{folder}/out.pt2", f"{folder}/fixed.pt2"
    kiln("compile", archive_with_dims(folder, Masked()), "-o", package, folder=folder)
    path = pathlib.Path(folder) / "relu.pt2"
    torch.export.save(torch.export.export(torch.nn.ReLU(), (torch.randn(3),)), path)
    kiln("compile", path, "-o", fixed, folder=folder)
    for asked, said in (("batch=3", "no size 'batch' that varies; it has"), ("ids[0]=65", "must be 2 … 64"),
                        ("ids[0]=many", "NAME=N"), ("ids[0]", "NAME=N"), ("ids[0]=-1", "NAME=N")):
        message = refusal("run", package, "--size", asked, folder=folder)
        assert said in message, (asked, message)
    assert "declares no dynamic sizes, so --size does not apply" in refusal("run", fixed, "--size", "n=2", folder=folder)


def test_sizes_that_nobody_asked_to_change_are_checked(folder):
    package, given = f"{folder}/out.pt2", f"{folder}/given.pt"
    kiln("compile", archive_with_dims(folder, Masked()), "-o", package, folder=folder)
    right = (torch.randn(4, 10), torch.randn(4, 11), torch.randn(10))
    for inputs, said in ((right, None),
                         ((right[0], torch.randn(4, 13), right[2]), "mask[1] is 13"),
                         ((right[0], right[1], torch.randn(9)), "weight[0] is 9"),
                         ((right[0], right[1], torch.randn(10, 1)), "weight has 2 dimensions"),
                         ((torch.randn(0, 10), right[1], right[2]), "ids[0] is 0")):
        torch.save(inputs, given)
        command = ["run", package, "--inputs", given, "--size", "ids[0]=7"]
        if said is None:
            kiln(*command, folder=folder)
        else:
            assert said in refusal(*command, folder=folder), said
    twice = refusal("run", package, "--size", "ids[0]=7", "--size", "mask[0]=8", folder=folder)
    assert "and another --size makes it 7" in twice, twice


def test_a_fixed_size_is_not_changed_by_another_that_varies(folder):
    path, package, given = (pathlib.Path(folder) / name for name in ("in.pt2", "out.pt2", "given.pt"))
    program = torch.export.export(
        Rectified(), (torch.randn(4, 8),), dynamic_shapes=({0: torch.export.Dim("rows", min=2)},))
    torch.export.save(program, path)
    kiln("compile", path, "-o", package, folder=folder)
    torch.save((torch.randn(4, 5),), given)
    message = refusal("run", package, "--inputs", given, "--size", "x[0]=7", folder=folder)
    assert "x[1] is 5, and the package takes 8" in message, message


def test_an_archive_of_fixed_sizes_is_compiled_without_a_word(folder):
    path = pathlib.Path(folder) / "fixed.pt2"
    torch.export.save(torch.export.export(torch.nn.ReLU(), (torch.randn(3),)), path)
    done = kiln("compile", path, "-o", f"{folder}/out.pt2", "--json", folder=folder)
    assert json.loads(done.stdout)["specialisations"] == []
    assert "warning" not in done.stderr, done.stderr
    assert json.loads(kiln("inspect", path, "--json", folder=folder).stdout)["specialisations"] == []


for name, test in list(globals().items()):
    if name.startswith("test_"):
        with tempfile.TemporaryDirectory() as scratch:
            test(scratch)
        print("passed", name)
