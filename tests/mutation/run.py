"""./dev check --mutate: would the tests notice a mistake?

usage: run.py [--count N] [--seed S] [--library NAME ...] [--jobs N] [--preset P] [--results FILE]

Draws N small mistakes (mutants.py) by a seed, as many of each library; libraries without torch come first. Each is made in a
copy of the sources (build/mutation), compiled, and run against the tests of its library. It is killed if one fails, takes
far longer than it did, or crashes; a mistake that does not compile counts for nothing and another is drawn. Results are
appended to FILE, a JSON object a line; a run that is repeated with the same seed goes on where it was ended. Survivors are
listed at the end, and are to be read: some are as right as the original.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import queue
import random
import shutil
import subprocess
import sys
import threading
import time

from mutants import mutants_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Sources, targets to build, and tests by name.
LIBRARIES = {
    "ir": ("libs/ir/src/**/*.cpp", ["kiln-ir-tests", "kiln-opt"], r"^(ir\.|filetests\.)"),
    "partitioner": ("libs/partitioner/src/**/*.cpp", ["kiln-partitioner-tests"],
                    r"^partitioner\.(cost_model|explain|file|knapsack|memory|min_cut|partition|property)_test$"),
    "codegen/lower": ("libs/codegen/src/lower/*.cpp", ["kiln-codegen-tests", "kiln-differential-tests"],
                      r"^(codegen\.(program|schedule|passes|index)_test|differential\.operator_sweep_test)$"),
    "capture": ("libs/capture/src/*.cpp", ["kiln-capture-tests"], r"^capture\."),
    "autograd-dispatch": ("libs/autograd-dispatch/src/**/*.cpp", ["kiln-autograd-dispatch-tests"],
                          r"^autograd-dispatch\."),
}
COPIED = ["CMakeLists.txt", "CMakePresets.json", "cmake", "libs", "tests", "tools", "examples", "docs", "dev", "ports",
          "vcpkg.json", ".setup"]
SLOWEST = 5  # Times as long as without a mistake: it runs for ever.


def drawn(library, seed):
    """Mutants of a library, in an order that the seed decides."""
    found = []
    for path in sorted(ROOT.glob(LIBRARIES[library][0])):
        found += mutants_of(str(path.relative_to(ROOT)), path.read_text())
    random.Random(f"{seed} {library}").shuffle(found)
    return found


class Tree:
    """A copy of the sources with a build of its own."""

    def __init__(self, number, preset, threads):
        self.path, self.preset, self.threads = ROOT / "build" / "mutation" / str(number), preset, threads
        self.seconds = {}  # What tests of a library take.
        self.path.mkdir(parents=True, exist_ok=True)
        for name in COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, self.path / name, dirs_exist_ok=True, symlinks=True)
            elif (ROOT / name).exists():
                shutil.copy2(ROOT / name, self.path / name)
        if (ROOT / ".venv").exists() and not (self.path / ".venv").exists():
            (self.path / ".venv").symlink_to(ROOT / ".venv")
        self.run(["cmake", "--preset", preset], 600, required=True)

    def run(self, command, seconds, required=False):
        """The exit status; None if it took too long."""
        environment = dict(os.environ, OMP_NUM_THREADS=str(min(2, self.threads)))
        try:
            done = subprocess.run(command, cwd=self.path, env=environment, capture_output=True, text=True, timeout=seconds)
        except subprocess.TimeoutExpired:
            return None
        if required and done.returncode != 0:
            raise SystemExit(f"{' '.join(command)}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        return done.returncode

    def build(self, library, required=False):
        return self.run(["cmake", "--build", f"build/{self.preset}", f"-j{self.threads}", "--target", *LIBRARIES[library][1]],
                        3600, required)

    def test(self, library, seconds, required=False):
        return self.run(["ctest", "--test-dir", f"build/{self.preset}", "-R", LIBRARIES[library][2], "--stop-on-failure",
                         "--no-tests=error", f"-j{self.threads}"], seconds, required)

    def prepare(self, library):
        """Builds and tests it as it is."""
        if library not in self.seconds:
            self.build(library, required=True)
            begin = time.monotonic()
            self.test(library, 3600, required=True)
            self.seconds[library] = time.monotonic() - begin

    def verdict(self, library, mutant):
        """killed, survived, or invalid: it does not compile."""
        self.prepare(library)
        path = self.path / mutant.file
        source = path.read_text()
        path.write_text(mutant.applied(source))
        try:
            if self.build(library) != 0:
                return "invalid"
            return "survived" if self.test(library, SLOWEST * self.seconds[library] + 10) == 0 else "killed"
        finally:
            path.write_text(source)


class Session:
    """Which mutants are done, and which is next."""

    def __init__(self, options):
        self.options, self.lock, self.results = options, threading.Lock(), []
        known = set()
        if options.results.exists():
            for line in options.results.read_text().splitlines():
                result = json.loads(line)
                if result["seed"] == options.seed and result["library"] in options.library:
                    self.results.append(result)
                    known.add(result["mutant"])
        self.waiting = {name: iter([mutant for mutant in drawn(name, options.seed) if str(mutant) not in known])
                        for name in options.library}
        self.under_way = []

    def next(self):
        """A mutant of the first library that has not had its share."""
        with self.lock:
            for name, waiting in self.waiting.items():
                counted = sum(result["library"] == name and result["verdict"] != "invalid" for result in self.results)
                if counted + self.under_way.count(name) < -(-self.options.count // len(self.waiting)):
                    if (mutant := next(waiting, None)) is not None:
                        self.under_way.append(name)
                        return name, mutant
            return None

    def note(self, library, mutant, verdict):
        result = {"seed": self.options.seed, "library": library, "mutant": str(mutant), "verdict": verdict}
        with self.lock:
            self.under_way.remove(library)
            self.results.append(result)
            with self.options.results.open("a") as file:
                file.write(json.dumps(result) + "\n")
            print(f"{verdict:9} {mutant}", flush=True)

    def work(self, trees):
        tree = trees.get()
        while (following := self.next()) is not None:
            self.note(*following, tree.verdict(*following))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--library", action="append", choices=LIBRARIES)
    parser.add_argument("--jobs", type=int, default=1, help="copies of the sources that are worked on at the same time")
    parser.add_argument("--preset", default=os.environ.get("KILN_PRESET", "ci"))
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "build" / "mutation.jsonl")
    options = parser.parse_args()
    options.library = options.library or list(LIBRARIES)
    options.results.parent.mkdir(parents=True, exist_ok=True)
    print(f"seed {options.seed}; results in {options.results}", flush=True)
    session, trees = Session(options), queue.Queue()
    threads = max(1, (os.cpu_count() or 1) // options.jobs)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for tree in pool.map(lambda number: Tree(number, options.preset, threads), range(options.jobs)):
            trees.put(tree)
        for done in [pool.submit(session.work, trees) for _ in range(options.jobs)]:
            done.result()
    count = {verdict: sum(result["verdict"] == verdict for result in session.results)
             for verdict in ("killed", "survived", "invalid")}
    print(f"\n{count['killed']} killed, {count['survived']} survived, {count['invalid']} did not compile")
    for result in session.results:
        if result["verdict"] == "survived":
            print(f"  {result['mutant']}")


if __name__ == "__main__":
    sys.exit(main())
