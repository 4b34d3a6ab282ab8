"""What ./dev bench cuda models says: the table, the bars of the picture, and the targets that are missed."""

from dataclasses import dataclass

from report import geometric_mean  # one folder up

# How many times as long as Kiln's a peer's call or compile takes, at least.
LEAST = {"graphs": 1.0, "plain": 1.5, "AOTInductor": 1.2, "compile": 6}
LEAST_OF = {("resnet18 32x224", "graphs"): 1.25}
LEAST_MEAN = {"graphs": 1.15}
# Kiln's memory, load and error over those of reduce-overhead, AOTInductor and eager, at most.
MOST = {"memory": 1.0, "load": 0.5, "error": 1.5}
# What misses its target and stays so: of which model, which target, and why. docs/cuda.md has the profile.
WRITTEN_OFF = {}

PEERS = {"graphs": "reduce-overhead", "plain": "torch.compile", "AOTInductor": "AOTInductor's package",
         "compile": "torch.compile's first call", "memory": "reduce-overhead", "load": "AOTInductor", "error": "eager"}


@dataclass
class Miss:
    text: str
    reason: str | None = None


def number(found, part, key):
    return found.get(part, {}).get(key)


def ratios(found):
    """Each ratio that both sides were measured for."""
    pairs = {
        "graphs": (number(found, "reduce-overhead", "ms"), number(found, "kiln graphs", "ms")),
        "plain": (number(found, "torch.compile", "ms"), number(found, "kiln", "ms")),
        "AOTInductor": (number(found, "AOTInductor", "ms"), number(found, "kiln", "ms")),
        "compile": (number(found, "torch.compile", "compile_s"), number(found, "kiln", "compile_s")),
        "memory": (number(found, "kiln graphs", "memory"), number(found, "reduce-overhead", "memory")),
        "load": (number(found, "kiln", "load_ms"), number(found, "AOTInductor", "load_ms")),
        "error": (number(found, "kiln", "error"), number(found, "kiln", "eager_error")),
    }
    return {key: above / below for key, (above, below) in pairs.items() if above and below}


def column(value, width, digits, scale=1.0):
    return f"{'-':>{width}}" if value is None else f"{value * scale:{width}.{digits}f}"


HEAD = (f"{'':16} {'graphs':>7} {'torch':>7} {'ratio':>5}  {'plain':>7} {'torch':>7} {'ratio':>5} {'AOTI':>7} "
        f"{'ratio':>5}  {'eager':>7}  {'busy':>6} {'torch':>6} {'AOTI':>6}  {'compile':>7} {'torch':>5} {'AOTI':>5}  "
        f"{'load':>5} {'AOTI':>5}  {'MB':>5} {'torch':>5}  {'error':>7} {'eager':>7}")


def described(name, found):
    """A model as a line of the table, and a line for each part that failed."""
    of = ratios(found)
    value = lambda part, key, width, digits, scale=1.0: column(number(found, part, key), width, digits, scale)
    error = lambda key: f"{number(found, 'kiln', key):7.1e}" if number(found, "kiln", key) else f"{'-':>7}"
    line = (f"{name:16} {value('kiln graphs', 'ms', 7, 3)} {value('reduce-overhead', 'ms', 7, 3)} "
            f"{column(of.get('graphs'), 5, 2)}  {value('kiln', 'ms', 7, 3)} {value('torch.compile', 'ms', 7, 3)} "
            f"{column(of.get('plain'), 5, 2)} {value('AOTInductor', 'ms', 7, 3)} {column(of.get('AOTInductor'), 5, 2)}  "
            f"{value('torch.compile', 'eager_ms', 7, 3)}  {value('kiln', 'busy_ms', 6, 3)} "
            f"{value('torch.compile', 'busy_ms', 6, 3)} {value('AOTInductor', 'busy_ms', 6, 3)}  "
            f"{value('kiln', 'compile_s', 7, 1)} {value('torch.compile', 'compile_s', 5, 1)} "
            f"{value('AOTInductor', 'compile_s', 5, 0)}  {value('kiln', 'load_ms', 5, 0)} "
            f"{value('AOTInductor', 'load_ms', 5, 0)}  {value('kiln graphs', 'memory', 5, 0, 1e-6)} "
            f"{value('reduce-overhead', 'memory', 5, 0, 1e-6)}  {error('error')} {error('eager_error')}")
    return "\n".join([line, *(f"  {part}: {values['failed']}" for part, values in found.items() if "failed" in values)])


def all_of(models, key):
    return [of[key] for found in models.values() if key in (of := ratios(found))]


def means(models):
    for key, peer in PEERS.items():
        if numbers := all_of(models, key):
            worst = min(numbers) if key in LEAST else max(numbers)
            kind = "least" if key in LEAST else "most"
            yield f"{key}: geometric mean {geometric_mean(numbers):.2f}x of {peer}, {kind} {worst:.2f}x"


def missed(models):
    """Each target that is missed, and where Kiln has no number; a peer without one is no miss."""
    for name, found in models.items():
        for part in ("kiln", "kiln graphs"):
            if "failed" in found.get(part, {"failed": "not measured"}):
                yield Miss(f"{name}: {part}: {found.get(part, {}).get('failed', 'not measured')}")
        for key, ratio in ratios(found).items():
            if key in LEAST and ratio >= LEAST_OF.get((name, key), LEAST[key]):
                continue
            if key in MOST and ratio <= MOST[key]:
                continue
            yield Miss(f"{name}: {key} {ratio:.2f}x of {PEERS[key]}", WRITTEN_OFF.get((name, key)))
    for key, least in LEAST_MEAN.items():
        numbers = all_of(models, key)
        if numbers and geometric_mean(numbers) < least:
            yield Miss(f"{key}: geometric mean {geometric_mean(numbers):.2f}x", WRITTEN_OFF.get(("all", key)))


def drawn(models):
    """Rows for charts.ratio_bars: of each model, calls that are replayed and calls that are not."""
    rows = []
    for name, found in models.items():
        for what, ours, peers in (("graphs", "kiln graphs", ["reduce-overhead"]),
                                  ("plain", "kiln", ["torch.compile", "AOTInductor"])):
            times = {"kiln": number(found, ours, "ms")} | {peer: number(found, peer, "ms") for peer in peers}
            times = {label: ms for label, ms in times.items() if ms}
            if "kiln" in times and len(times) > 1:
                rows.append({"what": f"{name}, {what}", "ms": times,
                             "ratio": {label: ms / times["kiln"] for label, ms in times.items()}})
    return rows
