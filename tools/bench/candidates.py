"""The callables that ./dev bench compares, and what it took to make them."""

import importlib.util
import json
import logging
import os
import pathlib
import statistics
import subprocess
import sys
import time
import warnings

import torch

from models import MODELS
from patterns import PATTERNS

# PyTorch and its exporters warn of themselves.
warnings.filterwarnings("ignore")

ROOT = pathlib.Path(__file__).resolve().parents[2]
KILN = ROOT / "build" / "bin" / "kiln"
KNOWN = MODELS | PATTERNS
PEERS = ["eager", "TorchScript", "torch.compile", "AOTInductor", "ONNX"]
# Those that take minutes to compile, or give up being updated: only if they are asked for.
MORE_PEERS = ["max-autotune", "AOTInductor-frozen"]
# Packages that another build of Kiln compiles.
BEFORE = "before"
STARTS = 3
ONNX_PACKAGES = ["onnx", "onnxscript", "onnxruntime"]


def timed(work, clock=time.perf_counter):
    start = clock()
    result = work()
    return result, clock() - start


def converted(value, dtype):
    """A model or an argument with its floating point numbers as `dtype`."""
    if isinstance(value, torch.Tensor):
        return value.to(dtype) if value.is_floating_point() else value
    return value.to(dtype)


def made(name, dtype=torch.float32):
    """The module of that name in evaluation mode, and its arguments: the same ones each time."""
    torch.manual_seed(0)
    model, arguments = KNOWN[name].make()
    return converted(model.eval(), dtype), tuple(converted(argument, dtype) for argument in arguments)


def listed(results):
    """All tensors in what a model returned, in order."""
    if isinstance(results, torch.Tensor):
        return [results]
    return [tensor for result in results for tensor in listed(result)]


def frozen_script(model, arguments):
    scripted = torch.jit.freeze(torch.jit.trace(model, arguments, strict=False))
    for _ in range(3):  # its executor optimises while it is called
        scripted(*arguments)
    return scripted


def install_onnx():
    """ONNX Runtime is nobody's dependency: it comes when it is first compared with."""
    if all(importlib.util.find_spec(package) for package in ONNX_PACKAGES):
        return
    command = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", *ONNX_PACKAGES]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"pip cannot install {', '.join(ONNX_PACKAGES)}")
    importlib.invalidate_caches()


def convert_to_onnx(model, arguments, file):
    """Without what its exporter has to say about itself."""
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    torch.onnx.export(model, arguments, file, dynamo=True, verbose=False)


class Candidates:
    """Everybody's version of one model."""

    def __init__(self, name, folder, peers, dtype, progress, before=None):
        self.name, self.progress = name, progress
        self.model, self.arguments = made(name, dtype)
        self.tolerance = 1e-3 if dtype == torch.float32 else 5e-2
        self.calls, self.compile_s, self.load_s, self.megabytes, self.packages, self.skipped = {}, {}, {}, {}, {}, {}
        self.inputs = folder / f"{name}-inputs.pt"
        torch.save(list(self.arguments), self.inputs)
        self.exported = torch.export.export(self.model, self.arguments)
        self.archive = folder / f"{name}.pt2"
        torch.export.save(self.exported, self.archive)
        self.add("kiln", lambda: self.kiln("kiln", KILN, folder))
        makers = {
            BEFORE: lambda: self.kiln(BEFORE, before, folder),
            "eager": lambda: self.model,
            "TorchScript": lambda: frozen_script(self.model, self.arguments),
            "torch.compile": self.compiled,
            "max-autotune": lambda: self.compiled(mode="max-autotune"),
            "AOTInductor": lambda: self.inductor(folder / f"{name}-aoti.pt2"),
            "AOTInductor-frozen": lambda: self.inductor(folder / f"{name}-frozen.pt2", freezing=True),
            "ONNX": lambda: self.onnx(folder / f"{name}.onnx"),
        }
        for peer in peers:
            try:
                self.add(peer, makers[peer])
            except Exception as error:  # a peer that cannot is a result, too
                self.skipped[peer] = (str(error).strip() or repr(error)).splitlines()[0][:100]
        self.compare(self.model(*self.arguments))

    def add(self, label, make):
        self.progress(f"{self.name}: {label}")
        call = make()
        call(*self.arguments)  # one that cannot be called is none
        self.calls[label] = lambda: call(*self.arguments)

    def keep_package(self, label, package):
        call, self.load_s[label] = timed(lambda: torch._inductor.aoti_load_package(str(package)))
        self.megabytes[label] = package.stat().st_size / 1e6
        self.packages[label] = package
        return call

    def kiln(self, label, tool, folder):
        # The median of three: what else happens in such a second may take half of it.
        package = folder / f"{self.name}-{label}.pt2"
        command = [tool, "compile", self.archive, "-o", package, "--no-cache", "--json"]
        taken = []
        for _ in range(3):
            package.unlink(missing_ok=True)
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            taken.append(json.loads(done.stdout)["total_ms"] / 1e3)
        self.compile_s[label] = statistics.median(taken)
        return self.keep_package(label, package)

    def compiled(self, **options):
        torch._dynamo.reset()
        call = torch.compile(self.model, **options)
        _, self.compile_s[options.get("mode", "torch.compile")] = timed(lambda: call(*self.arguments))
        return call

    def inductor(self, package, **configs):
        label = "AOTInductor-frozen" if configs else "AOTInductor"
        work = lambda: torch._inductor.aoti_compile_and_package(
            self.exported, package_path=str(package), inductor_configs=configs
        )
        _, self.compile_s[label] = timed(work)
        return self.keep_package(label, package)

    def onnx(self, file):
        install_onnx()
        import onnxruntime

        options = onnxruntime.SessionOptions()
        # Its threads look out for more work for a while, on the cores of whoever has the next turn.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.intra_op_num_threads = torch.get_num_threads()

        def convert():
            convert_to_onnx(self.model, self.arguments, file)
            return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])

        session, self.compile_s["ONNX"] = timed(convert)
        self.megabytes["ONNX"] = sum(part.stat().st_size for part in file.parent.glob(file.name + "*")) / 1e6
        names = [value.name for value in session.get_inputs()]

        def call(*arguments):
            given = dict(zip(names, (argument.numpy() for argument in arguments), strict=True))
            return [torch.from_numpy(result) for result in session.run(None, given)]

        return call

    def compare(self, expected):
        expected = listed(expected)
        for label, call in self.calls.items():
            for found, wanted in zip(listed(call()), expected, strict=True):
                allowed = self.tolerance * wanted.abs().max().item()
                if not torch.allclose(found, wanted, self.tolerance, allowed):
                    raise SystemExit(f"{self.name}: {label} is wrong by {(found - wanted).abs().max()}")

    def served(self, seconds, instances):
        """By package: its load time, latency and throughput with 1, 2, 4 … instances, in one runner."""
        result = {}
        for label, package in self.packages.items():
            self.progress(f"{self.name}: {label} with 1 to {instances} instances")
            command = [KILN, "bench", package, "--inputs", self.inputs, "--json"]
            command += ["--seconds", str(seconds), "--instances", str(instances)]
            threads = dict(os.environ, OMP_NUM_THREADS=str(torch.get_num_threads()))
            run = lambda command: json.loads(
                subprocess.run(command, check=True, capture_output=True, text=True, env=threads).stdout
            )
            result[label] = run(command)
            # What else happens in a first call may take half of it: the best of so many processes.
            for _ in range(STARTS - 1):
                again = run([*command[:-4], "--seconds", "0", "--instances", "1"])
                if again["load_ms"] + again["first_us"] / 1e3 < result[label]["load_ms"] + result[label]["first_us"] / 1e3:
                    result[label] |= {key: again[key] for key in ("load_ms", "first_us")}
        return result
