"""Device memory as the driver counts it, whoever asked for it: libtorch's allocator, CUDA graphs, a context.

NVML is asked, which needs no context of its own.
"""

import ctypes
import threading
import time

INTERVAL = 0.005


class Memory(ctypes.Structure):
    """nvmlMemory_v2_t. Unlike the first version, `used` does not count what the driver reserves for itself, which is
    hundreds of megabytes, and which cudaMemGetInfo does not count either."""
    _fields_ = [("version", ctypes.c_uint),
                *((name, ctypes.c_ulonglong) for name in ("total", "reserved", "free", "used"))]


class Gpu:
    """The first GPU. Raises OSError where there is no driver."""

    def __init__(self):
        self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
        self.device = ctypes.c_void_p()
        self.require(self.nvml.nvmlInit_v2())
        self.require(self.nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.device)))

    @staticmethod
    def require(status):
        if status != 0:
            raise OSError(f"NVML says {status}")

    def used(self):
        memory = Memory(version=ctypes.sizeof(Memory) | 2 << 24)
        self.require(self.nvml.nvmlDeviceGetMemoryInfo_v2(self.device, ctypes.byref(memory)))
        return memory.used


class Watch:
    """The most device memory that is taken while it is open, above what was taken before; only while `when()`."""

    def __init__(self, used, when=lambda: True):
        self.used, self.when = used, when
        self.most = None
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self.look, daemon=True)

    def look(self):
        while not self.stopped.is_set():
            if self.when():
                taken = self.used() - self.before
                # The phase may have ended meanwhile.
                if self.when():
                    self.most = max(self.most or 0, taken)
            time.sleep(INTERVAL)

    def __enter__(self):
        self.before = self.used()
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        self.thread.join()


def settled(used, seconds=3):
    """What is used once nothing was given back for some seconds: a process that has ended may leave compilers behind."""
    least, since = used(), time.monotonic()
    while time.monotonic() - since < seconds:
        time.sleep(0.1)
        if (now := used()) < least:
            least, since = now, time.monotonic()
    return least


def usage():
    """What tells how much is used, or None where there is no GPU."""
    try:
        return Gpu().used
    except OSError:
        return None
