"""./dev bench hot_paths: instructions of what every call goes through, against those that were recorded.

usage: run.py [--record] [--json FILE]

One call of a small model in the Runner, one check of the guards of a function of four tensors, of fixed sizes and of
sizes that are symbols, one hit in the cache's memory. Callgrind counts instructions, so a busy or slow machine changes
nothing; `recorded.json` has the numbers of each architecture. More than TOLERANCE above them fails; so does as much
below, because a gain that is not recorded cannot be guarded. `--record` writes what was counted.
"""

import argparse
import json
import pathlib
import platform
import re
import shutil
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAM = ROOT / "build" / "bin" / "kiln-hot-paths"
FOLDER = ROOT / "build" / "hot-paths"
RECORDED = pathlib.Path(__file__).parent / "recorded.json"
TIMES = 200
TOLERANCE = 0.04
PATHS = {
    "hot_call": "a call of a small model in the Runner",
    "hot_guards": "guards of a function of four tensors",
    "hot_symbolic_guards": "guards of four tensors whose sizes vary",
    "hot_hit": "a hit in the cache's memory",
}


def hide_unwind_tables(library, copy):
    """Valgrind gives up where it reads unwind tables of SVE code; it looks for them by the section's name alone."""
    data = bytearray(library.read_bytes())
    (sections,) = struct.unpack_from("<Q", data, 0x28)
    size, _, names = struct.unpack_from("<HHH", data, 0x3A)
    start, length = struct.unpack_from("<QQ", data, sections + names * size + 0x18)
    at = data.find(b".eh_frame\0", start, start + length)
    if at >= 0:
        data[at : at + 9] = b".hidden_1"
    copy.write_bytes(data)


def libraries():
    """A folder with libtorch as valgrind can read it."""
    linked = subprocess.run(["ldd", PROGRAM], check=True, capture_output=True, text=True).stdout
    torch = pathlib.Path(re.search(r"libtorch_cpu\.so => (\S+)", linked).group(1)).parent
    folder = FOLDER / "libraries"
    stamp = folder / "stamp"
    known = f"{torch} {(torch / 'libtorch_cpu.so').stat().st_mtime_ns}"
    if not stamp.exists() or stamp.read_text() != known:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for library in torch.glob("lib*.so*"):
            if library.name.startswith(("libtorch_cpu.", "libopenblas.", "libarm_compute.")):
                hide_unwind_tables(library, folder / library.name)
            else:
                (folder / library.name).symlink_to(library)
        stamp.write_text(known)
    return folder


def count():
    """Instructions of one round of each path."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    model = FOLDER / "model.so"
    subprocess.run([PROGRAM, "prepare", model], check=True)
    environment = {"PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    if platform.machine() == "aarch64":
        environment["LD_LIBRARY_PATH"] = str(libraries())
    command = ["valgrind", "-q", "--tool=callgrind", "--collect-atstart=no"]
    command += [f"--toggle-collect={path}" for path in PATHS]
    with tempfile.TemporaryDirectory() as folder:
        command += [f"--callgrind-out-file={folder}/%p", PROGRAM, "run", model, str(TIMES)]
        answer = subprocess.run(command, check=True, env=environment, stdout=subprocess.PIPE, text=True).stdout
        counted = {}
        for path, process in (line.split() for line in answer.splitlines()):
            totals = re.search(r"^totals: (\d+)", (pathlib.Path(folder) / process).read_text(), re.M)
            counted[path] = round(int(totals.group(1)) / TIMES)
    return counted


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="write what is counted to recorded.json")
    parser.add_argument("--json", default=str(ROOT / "build" / "bench-hot-paths.json"))
    arguments = parser.parse_args()
    if not shutil.which("valgrind"):
        sys.exit("valgrind is not installed")
    counted = count()
    if missing := [path for path in PATHS if path not in counted]:
        sys.exit(f"not counted: {', '.join(missing)}")
    pathlib.Path(arguments.json).write_text(json.dumps(counted, indent=2) + "\n")
    known = json.loads(RECORDED.read_text())
    recorded = known.get(platform.machine(), {})
    changed = 0
    print(f"instructions, {platform.machine()}: counted, recorded")
    for path, what in PATHS.items():
        verdict = "not recorded"
        if path in recorded:
            change = counted[path] / recorded[path] - 1
            changed += abs(change) > TOLERANCE
            verdict = f"{recorded[path]:8,}   {change:+6.1%}{' CHANGED' if abs(change) > TOLERANCE else ''}"
        print(f"  {what:40s} {counted[path]:8,} {verdict}")
    if arguments.record:
        RECORDED.write_text(json.dumps(known | {platform.machine(): counted}, indent=2) + "\n")
        print(f"recorded in {RECORDED.relative_to(ROOT)}")
    elif changed:
        sys.exit("if this is meant: ./dev bench hot_paths --record")


if __name__ == "__main__":
    main()
