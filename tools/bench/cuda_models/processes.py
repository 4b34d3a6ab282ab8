"""Steps of ./dev bench cuda models in processes of their own: one that crashes or hangs costs nobody else a number."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

from device_memory import Watch

PEER = Path(__file__).resolve().parent / "peer.py"


class Deadline:
    """When everything has to be over."""

    def __init__(self, minutes):
        self.end = time.monotonic() + 60 * minutes

    def left(self):
        return self.end - time.monotonic()


def reason_in(log):
    """The line of a log that says most likely why there is no more of it; None where there is no line."""
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()] if log.exists() else []
    errors = [line for line in lines if re.match(r"\S*(Error|Exception|error):? ", line)]
    return (errors or lines or [None])[-1]


def how_it_ended(process, log):
    """Why a process failed, in a line."""
    if process.returncode < 0:
        return f"crashed with {signal.Signals(-process.returncode).name}"
    return (reason_in(log) or f"ended with {process.returncode}")[:300]


def run(command, log, seconds, environment=None):
    """None, or in words why the command has not succeeded within so many seconds."""
    if seconds <= 0:
        return "no time was left"
    with open(log, "wb") as output:
        process = subprocess.Popen([str(part) for part in command], stdout=output, stderr=subprocess.STDOUT,
                                   env=os.environ | (environment or {}), start_new_session=True)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            return f"took more than {seconds:.3g} s"
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)  # and compilers that it started
            except ProcessLookupError:
                pass
            process.wait()
    return how_it_ended(process, log) if process.returncode != 0 else None


class Step:
    """What the processes of one model have in common."""

    def __init__(self, name, folder, device, used):
        self.name, self.folder, self.device, self.used = name, folder, device, used
        folder.mkdir(parents=True, exist_ok=True)

    def watch(self, when=lambda: True):
        return Watch(self.used, when) if self.used else nullcontext()

    def run(self, step, seconds):
        """What peer.py finds in this step; "failed" says why that is not everything."""
        file, measuring = self.folder / f"{step}.json", self.folder / "measuring"
        for old in (file, measuring):
            old.unlink(missing_ok=True)
        # torch.compile begins with nothing; its other mode need not compile the same kernels again.
        # Without spaces: Inductor calls compilers with its path.
        cache = self.folder / f"cache-{'torch.compile' if step == 'reduce-overhead' else step.replace(' ', '-')}"
        if step == "torch.compile":
            shutil.rmtree(cache, ignore_errors=True)
        environment = {"TORCHINDUCTOR_CACHE_DIR": str(cache), "PYTHONUNBUFFERED": "1"}
        with self.watch(measuring.exists) as watch:
            failure = run([sys.executable, PEER, step, self.name, self.folder, self.device],
                          self.folder / f"{step}.log", seconds, environment)
        found = json.loads(file.read_text()) if file.exists() else {}
        if watch and watch.most is not None:
            found["memory"] = watch.most
        if not found.pop("done", False):
            found["failed"] = failure or "ended early"
        return found
