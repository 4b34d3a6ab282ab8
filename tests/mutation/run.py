"""./dev check --mutate: would the tests notice a mistake?

usage: run.py [--count N] [--seed S] [--library NAME ...] [--jobs N] [--minutes M] [--preset P] [--results FILE]

Draws N small mistakes (mutants.py) by a seed, as many of each library; libraries without torch come first. Each is
made in a copy of the sources (build/mutation), compiled, and run against the tests of its library; if they pass,
against those of others that use it. It is killed if one fails, takes far longer than it did, or crashes; a mistake
that does not compile counts for nothing and another is drawn. Results are appended to FILE, a JSON object a line; a run
that is repeated with the same seed goes on where it was ended. Survivors are listed at the end, and are to be read:
some are as right as the original.
"""

import argparse
import collections
import concurrent.futures
import filecmp
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
# What must be built, and which tests are then run.
Suite = collections.namedtuple("Suite", ["targets", "tests"])
CONFORMANCE = Suite(["kiln-conformance-tests"], r"^conformance\.")
# Sources, and the suites that are run: one's own tests first, then those that would notice later.
LIBRARIES = {
    "ir": ("libs/ir/src/**/*.cpp", [Suite(["kiln-ir-tests", "kiln-opt"], r"^(ir\.|filetests\.)")]),
    "partitioner": ("libs/partitioner/src/**/*.cpp", [
        Suite(["kiln-partitioner-tests"],
              r"^partitioner\.(cost_model|explain|file|knapsack|memory|min_cut|partition|property)_test$")]),
    "codegen/lower": ("libs/codegen/src/lower/*.cpp", [
        Suite(["kiln-codegen-tests", "kiln-opt"],
              r"^(codegen\.(program|schedule|passes|index)_test|filetests\.codegen)$"),
        Suite(["kiln-differential-tests"], r"^differential\.")]),
    "capture": ("libs/capture/src/*.cpp", [
        Suite(["kiln-capture-tests"], r"^capture\."),
        Suite(["kiln-autograd-dispatch-tests"], r"^autograd-dispatch\."), CONFORMANCE]),
    "autograd-dispatch": ("libs/autograd-dispatch/src/**/*.cpp", [
        Suite(["kiln-autograd-dispatch-tests"], r"^autograd-dispatch\."), CONFORMANCE]),
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


def put(path, text):
    """Makes it what the file says; one that says it already is not built again."""
    if path.read_text() != text:
        path.write_text(text)


def copied(source, target):
    """Copies a file that differs, with a new time: what was built of a mutant is built again."""
    if not os.path.exists(target) or not filecmp.cmp(source, target, shallow=False):
        shutil.copy(source, target)
    return target


class Tree:
    """A copy of the sources with a build of its own."""

    def __init__(self, number, preset, threads):
        self.path, self.preset, self.threads = ROOT / "build" / "mutation" / str(number), preset, threads
        self.seconds = {}  # What tests of a suite take.
        self.path.mkdir(parents=True, exist_ok=True)
        for name in COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, self.path / name, dirs_exist_ok=True, symlinks=True, copy_function=copied)
            elif (ROOT / name).exists():
                copied(ROOT / name, self.path / name)
        if (ROOT / ".venv").exists() and not (self.path / ".venv").exists():
            (self.path / ".venv").symlink_to(ROOT / ".venv")
        # A mutant that reads an empty optional must not pass by luck.
        self.run(["cmake", "--preset", preset, "-DCMAKE_CXX_FLAGS=-D_GLIBCXX_ASSERTIONS"], 600, required=True)

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

    def build(self, suite, required=False):
        return self.run(["cmake", "--build", f"build/{self.preset}", f"-j{self.threads}", "--target", *suite.targets],
                        3600, required)

    def test(self, suite, seconds, required=False):
        return self.run(["ctest", "--test-dir", f"build/{self.preset}", "-R", suite.tests, "--stop-on-failure",
                         "--no-tests=error", f"-j{self.threads}"], seconds, required)

    def prepare(self, suite):
        """Builds and tests it as it is."""
        self.build(suite, required=True)
        begin = time.monotonic()
        self.test(suite, 3600, required=True)
        self.seconds[suite.tests] = time.monotonic() - begin

    def verdict(self, library, mutant):
        """killed, later (by the tests of others), survived, or invalid: it does not compile."""
        path = self.path / mutant.file
        source = path.read_text()
        try:
            for number, suite in enumerate(LIBRARIES[library][1]):
                if suite.tests not in self.seconds:
                    put(path, source)
                    self.prepare(suite)
                put(path, mutant.applied(source))
                if self.build(suite) != 0:
                    return "invalid"
                if self.test(suite, SLOWEST * self.seconds[suite.tests] + 10) != 0:
                    return "later" if number else "killed"
            return "survived"
        finally:
            put(path, source)


class Session:
    """Which mutants are done, and which is next."""

    def __init__(self, options):
        self.options, self.lock, self.results = options, threading.Lock(), []
        self.end = time.monotonic() + 60 * options.minutes
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
            if time.monotonic() > self.end:
                return None
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
    parser.add_argument("--minutes", type=float, default=float("inf"), help="no mutant is begun after them")
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
             for verdict in ("killed", "later", "survived", "invalid")}
    print(f"\n{count['killed']} killed, {count['later']} by the tests of others, {count['survived']} survived, "
          f"{count['invalid']} did not compile")
    for result in session.results:
        if result["verdict"] == "survived":
            print(f"  {result['mutant']}")


if __name__ == "__main__":
    sys.exit(main())
