"""PyTorch's own runner and package loader on a library and a package that Kiln made.

usage: load_ours.py LIBRARY PACKAGE   (the model of tests/models/affine.cpp)
"""

import sys
import zipfile

import torch


def affine(x, scale, shift):
    return 2 * scale * x + shift


def refuses(call, text):
    try:
        call()
    except RuntimeError as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"nothing was refused; expected: {text}")


def check_runner(library):
    runner = torch._C._aoti.AOTIModelContainerRunnerCpu(library, 2)
    x = torch.rand(3, 4)
    scale, shift = torch.tensor([1.0, 2, 3, 4]), torch.tensor([10.0, 20, 30, 40])
    torch.testing.assert_close(runner.run([x])[0], affine(x, scale, shift))
    assert runner.get_constant_names_to_original_fqns()["c_scale"] == "module.scale"
    assert runner.get_constant_names_to_dtypes()["c_scale"] == 6
    assert len(runner.get_call_spec()) == 2

    scale = torch.rand(4)
    runner.update_constant_buffer({"c_scale": scale}, False, False)
    torch.testing.assert_close(runner.run([x])[0], affine(x, scale, shift))

    old, scale = scale, torch.rand(4)
    runner.update_constant_buffer({"c_scale": scale}, True, True)
    torch.testing.assert_close(runner.run([x])[0], affine(x, old, shift))
    runner.swap_constant_buffer()
    torch.testing.assert_close(runner.run([x])[0], affine(x, scale, shift))
    torch.testing.assert_close(runner.extract_constants_map(False)["module.scale"], scale)
    runner.free_inactive_constant_buffer()

    refuses(lambda: runner.run([x, x]), "expected inputs vector size to be 1, but got 2")
    refuses(lambda: runner.run([x.double()]), "input 0 'x': expected dtype float32")
    refuses(lambda: runner.run([torch.full((1, 4), float("nan"))]), "x starts with NaN")


def check_package(package):
    assert zipfile.ZipFile(package).testzip() is None
    model = torch._inductor.aoti_load_package(package)
    x = torch.rand(3, 4)
    shift = torch.tensor([10.0, 20, 30, 40])
    torch.testing.assert_close(model(x), affine(x, torch.tensor([1.0, 2, 3, 4]), shift))
    assert "module.scale" in model.get_constant_fqns()
    assert model.get_metadata()["AOTI_DEVICE_KEY"] == "cpu"

    scale = torch.rand(4)
    model.load_constants({"module.scale": scale}, check_full_update=False)
    torch.testing.assert_close(model(x), affine(x, scale, shift))


check_runner(sys.argv[1])
check_package(sys.argv[2])
