"""What Ctrl-C leaves beside a package whose weights are written while its kernels are compiled.

    interrupt.py KILN

Needs torch.
"""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import torch

KILN = sys.argv[1]

with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    started, slow, out = folder / "started", folder / "slow-compiler", folder / "out"
    out.mkdir()
    slow.write_text(f'#!/bin/sh\ncase "$*" in *kernels*) touch {started}; sleep 60;; esac\nexec g++ "$@"\n')
    slow.chmod(0o755)
    module = torch.nn.Sequential(torch.nn.Linear(2048, 2100), torch.nn.Softmax(1))  # 17 MB: enough to begin early.
    torch.export.save(torch.export.export(module, (torch.ones(1, 2048),)), folder / "in.pt2")
    environment = {**os.environ, "KILN_CACHE": "off", "TMPDIR": name, "KILN_CXX": str(slow)}
    compiling = subprocess.Popen([KILN, "compile", folder / "in.pt2", "-o", out / "out.pt2"], env=environment,
                                 preexec_fn=lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL))
    while not started.exists() and compiling.poll() is None:
        time.sleep(0.01)
    assert list(out.iterdir()), "the weights are not written ahead"
    compiling.send_signal(signal.SIGTERM)
    assert compiling.wait() == 128 + signal.SIGTERM, compiling.returncode
    assert not list(out.iterdir()), list(out.iterdir())
