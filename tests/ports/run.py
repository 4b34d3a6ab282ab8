#!/usr/bin/env python3
"""Builds every port of ports/ and lets an outside project use two of them.

Where $VCPKG_ROOT holds a vcpkg, that one is run too. Otherwise, and always first, the small runner
below: it orders the ports, runs each unmodified portfile with the stand-ins of standins.cmake, and
merges the packages into one prefix. It shows that our ports are sound, not that vcpkg agrees.

A portfile configures libs/<library> by itself against installed siblings, so this is also the test
that every library can be configured alone.
"""

import argparse
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import generate

HERE = Path(__file__).resolve().parent
ROOT = generate.ROOT


def fail(message: str) -> None:
    sys.exit(f"ports: {message}")


class Port:
    def __init__(self, folder: Path):
        manifest = json.loads((folder / "vcpkg.json").read_text())
        self.folder = folder
        self.name = manifest["name"]
        if self.name != folder.name:
            fail(f"{folder} holds a port named {self.name}")
        entries = manifest.get("dependencies", [])
        plain = [{"name": entry} if isinstance(entry, str) else entry for entry in entries]
        self.dependencies = [entry["name"] for entry in plain if not entry.get("host")]

    @property
    def is_ours(self) -> bool:
        return self.folder.parent.name == "ports"

    def sources(self) -> list[Path]:
        folders = [self.folder]
        if self.is_ours:
            folders += [ROOT / "libs" / self.name.removeprefix("kiln-"), ROOT / "cmake"]
        return sorted(path for folder in folders for path in folder.rglob("*") if path.is_file())


def read_ports(wanted: list[str]) -> list[Port]:
    """The wanted ports and what they need, each after its dependencies."""
    folders = [f for group in ("ports", "ports-system") for f in sorted((ROOT / group).iterdir()) if f.is_dir()]
    known = {port.name: port for port in map(Port, folders)}
    ordered: dict[str, Port] = {}

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            fail("the ports depend on each other in a circle: " + " -> ".join((*path, name)))
        if name not in known:
            fail(f"{path[-1] if path else 'the command line'} needs {name}, which is no port here")
        if name not in ordered:
            for dependency in known[name].dependencies:
                visit(dependency, (*path, name))
            ordered[name] = known[name]

    for name in wanted:
        visit(name, ())
    return list(ordered.values())


class Runner:
    """A prefix that ports are built into, one after the other."""

    def __init__(self, work: Path, jobs: int, optimization: str):
        self.work = work
        self.jobs = jobs
        self.optimization = optimization
        self.installed = work / "installed"
        self.owner: dict[Path, str] = {}
        self.digests: dict[str, str] = {}
        shutil.rmtree(self.installed, ignore_errors=True)
        self.installed.mkdir(parents=True)

    def install(self, port: Port) -> None:
        start = time.monotonic()
        package = self.work / "packages" / port.name
        stamp = self.work / "packages" / f"{port.name}.digest"
        digest = self.digest(port)
        reused = package.is_dir() and stamp.is_file() and stamp.read_text() == digest
        if not reused:
            stamp.unlink(missing_ok=True)
            shutil.rmtree(package, ignore_errors=True)
            package.mkdir(parents=True)
            self.run_portfile(port, package)
            stamp.write_text(digest)
        self.merge(port, package)
        how = "unchanged" if reused else f"{time.monotonic() - start:.1f} s"
        print(f"  {port.name:24} {how}", flush=True)

    def digest(self, port: Port) -> str:
        """Names everything a port is built from, so that nothing is built twice and nothing is stale."""
        content = hashlib.sha256(f"{self.optimization} {os.environ.get('KILN_TORCH_PREFIX')}".encode())
        for path in [*port.sources(), HERE / "standins.cmake"]:
            content.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
        for dependency in port.dependencies:
            content.update(self.digests[dependency].encode())
        self.digests[port.name] = content.hexdigest()
        return self.digests[port.name]

    def run_portfile(self, port: Port, package: Path) -> None:
        variables = {
            "PORT": port.name,
            "CURRENT_PORT_DIR": port.folder,
            "CURRENT_PACKAGES_DIR": package,
            "CURRENT_BUILDTREES_DIR": self.work / "buildtrees" / port.name,
            "CURRENT_INSTALLED_DIR": self.installed,
            "JOBS": self.jobs,
            "OPTIMIZATION": self.optimization,
        }
        run("cmake", *(f"-D{name}={value}" for name, value in variables.items()), "-P", HERE / "standins.cmake")

    def merge(self, port: Port, package: Path) -> None:
        for path in sorted(package.rglob("*")):
            name = path.relative_to(package)
            target = self.installed / name
            if path.is_dir():
                target.mkdir(exist_ok=True)
            elif name in self.owner:
                fail(f"{port.name} and {self.owner[name]} both own {name}")
            else:
                self.owner[name] = port.name
                shutil.copy2(path, target)


def run(*command: object, **options: object) -> None:
    result = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if result.returncode != 0:
        print(result.stdout, file=sys.stderr)
        fail(f"{' '.join(map(str, command[:6]))} … failed")


def consume(work: Path, installed: Path, wanted: list[str]) -> None:
    """Builds and runs the outside project against `installed`, if what it needs was asked for."""
    if not {"kiln-autograd-cache", "kiln-partitioner"} <= set(wanted):
        return
    build = work / "consumer"
    shutil.rmtree(build, ignore_errors=True)
    run("cmake", "-S", HERE / "consumer", "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={installed}")
    run("cmake", "--build", build)
    run("ctest", "--test-dir", build, "--output-on-failure", "--no-tests=error")
    print("  an outside project found kiln-autograd-cache and kiln-partitioner, and ran")


def run_own(work: Path, wanted: list[str], jobs: int, optimization: str) -> None:
    print(f"ports: own runner, {len(wanted)} ports of ours")
    runner = Runner(work, jobs, optimization)
    for port in read_ports(wanted):
        runner.install(port)
    consume(work, runner.installed, wanted)


def run_vcpkg(vcpkg: Path, work: Path, wanted: list[str]) -> None:
    print(f"ports: the real vcpkg, {vcpkg}")
    machine = {"x86_64": "x64", "aarch64": "arm64"}[platform.machine()]
    triplet = f"{machine}-linux-kiln"
    installed = work / "vcpkg-installed"
    # A fresh root and no binary cache: a port's hash does not cover a local source folder.
    shutil.rmtree(installed, ignore_errors=True)
    environment = os.environ | {"VCPKG_DISABLE_METRICS": "1", "VCPKG_FORCE_SYSTEM_BINARIES": "1"}
    run(
        vcpkg, "install", *wanted,
        f"--triplet={triplet}", f"--host-triplet={triplet}", f"--overlay-triplets={ROOT / 'triplets'}",
        f"--overlay-ports={ROOT / 'ports'}", f"--overlay-ports={ROOT / 'ports-system'}",
        f"--x-install-root={installed}", "--binarysource=clear",
        env=environment, cwd=work,
    )
    consume(work, installed / triplet, wanted)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, default=ROOT / "build/ports", help="where everything is built")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--optimization", default="-O0", help="the packages are looked at, not used")
    parser.add_argument("ports", nargs="*", help="only these and what they need")
    arguments = parser.parse_args()
    work = arguments.work.resolve()
    work.mkdir(parents=True, exist_ok=True)

    for path, _ in generate.stale_files(generate.library_names()):
        fail(f"{path.relative_to(ROOT)} does not say what the library declares: run tests/ports/generate.py")
    wanted = arguments.ports or [generate.port_name(library) for library in generate.library_names()]
    run_own(work, wanted, arguments.jobs, arguments.optimization)
    vcpkg = Path(os.environ.get("VCPKG_ROOT", "")) / "vcpkg"
    if "VCPKG_ROOT" in os.environ and vcpkg.is_file():
        run_vcpkg(vcpkg, work, wanted)
    else:
        print("ports: no vcpkg in $VCPKG_ROOT, so only the own runner was used")


if __name__ == "__main__":
    main()
