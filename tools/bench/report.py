"""What ./dev bench has to say: the table, and the targets that are missed."""

import math
import statistics

from turns import summary

# design.md: a row against the best peer, all rows on the geometric mean, a cold compile against a peer's, the first result
# in a new process above one eager call, and the load of GPT-2.
SLOWEST, MEAN, COMPILE, START_MS, GPT2_LOAD_MS = 1.0, 1.3, 15.0, 50.0, 50.0
# A change against what was before it: a row, all rows on the geometric mean; at most, times to compile and sizes.
ROW_BEFORE, MEAN_BEFORE, COMPILE_BEFORE, SIZE_BEFORE = 0.95, 0.99, 1.05, 1.03
# Whom the targets are set against; ONNX Runtime, which is no way to run libtorch's programs, is shown beside them.
COLUMNS = ["eager", "TorchScript", "torch.compile", "max-autotune", "AOTInductor", "AOTInductor-frozen"]


def summarize(made, what, turns):
    made_of = {"compile_s": made.compile_s, "load_s": made.load_s, "megabytes": made.megabytes, "skipped": made.skipped}
    return {"name": made.name, "what": what} | summary(turns) | made_of


def best_peer(row):
    peers = [label for label in row["ratio"] if label in COLUMNS] or [label for label in row["ratio"] if label != "kiln"]
    return min(peers, key=row["ratio"].get)


def best_ratio(row):
    return row["ratio"][best_peer(row)]


def geometric_mean(numbers):
    return math.exp(statistics.fmean(math.log(number) for number in numbers))


def made_in(row, label):
    parts = []
    if label in row["compile_s"]:
        parts.append(f"compiled in {row['compile_s'][label]:.1f} s")
    if label in row["load_s"]:
        parts.append(f"loaded in {row['load_s'][label] * 1e3:.0f} ms")
    if label in row["megabytes"]:
        parts.append(f"{row['megabytes'][label]:.1f} MB")
    return ", ".join(parts)


def table(rows):
    lines = ["milliseconds per call, and how many times as long as Kiln (10th to 90th percentile)", ""]
    for row in rows:
        lines.append(f"{row['name']}: {row['what']}")
        lines.append(f"  {'Kiln':14s} {row['ms']['kiln']:9.3f} ms   {'':22s}  {made_in(row, 'kiln')}".rstrip())
        for label in row["ratio"]:
            if label == "kiln":
                continue
            low, high = row["spread"][label]
            spread = f"{row['ratio'][label]:5.2f}x ({low:.2f} to {high:.2f})"
            lines.append(f"  {label:14s} {row['ms'][label]:9.3f} ms   {spread:22s}  {made_in(row, label)}".rstrip())
        for label, reason in row["skipped"].items():
            lines.append(f"  {label:14s} cannot: {reason}")
    mean = geometric_mean(best_ratio(row) for row in rows)
    lines += ["", f"against the best peer of each row: {mean:.2f}x on the geometric mean"]
    if others := [row["ratio"]["ONNX"] for row in rows if "ONNX" in row["ratio"]]:
        lines[-1] += f" (without ONNX Runtime; against that {geometric_mean(others):.2f}x on {len(others)} rows)"
    return "\n".join(lines)


def started(served):
    """Milliseconds from a new process with libtorch in it to the first result."""
    return served["load_ms"] + served["first_us"] / 1e3


def service_table(rows):
    """What a server sees: packages in the same runner, latency and calls a second over instances."""
    lines = ["in the Runner: milliseconds to load and to the first result, a call (median, 99th percentile), calls a second over instances", ""]
    for row in rows:
        for label, served in row.get("served", {}).items():
            rates = "  ".join(f"{count}: {rate:.0f}" for count, rate in served["throughput"].items())
            lines.append(
                f"  {row['name']:12s} {label:18s} {served['load_ms']:7.1f} {started(served):8.1f} "
                f"{served['p50_us'] / 1e3:9.3f} {served['p99_us'] / 1e3:9.3f}   {rates}"
            )
    return "\n".join(lines)


def start_table(rows):
    """What a new process sees."""
    lines = ["a new process of Python that has imported torch: milliseconds to the first result, megabytes at its peak", ""]
    for row in rows:
        for label, fresh in row.get("fresh", {}).items():
            lines.append(f"  {row['name']:12s} {label:22s} {fresh['start_ms']:11.1f} {fresh['peak_mb']:9.1f}")
    return "\n".join(lines)


def missed_speed(rows):
    for row in rows:
        if best_ratio(row) < SLOWEST:
            yield f"{row['name']}: {best_ratio(row):.2f}x of {best_peer(row)}, wanted {SLOWEST}x"
    mean = geometric_mean(best_ratio(row) for row in rows)
    if mean < MEAN:
        yield f"geometric mean {mean:.2f}x, wanted {MEAN}x"


def missed_compiles(row):
    """AOTInductor's is counted in a process that has compiled before, torch.compile's in a new one."""
    seconds = {"AOTInductor": row["compile_s"].get("AOTInductor")}
    if cold := row.get("fresh", {}).get("torch.compile, cold"):
        seconds["torch.compile"] = cold["start_ms"] / 1e3
    for label, taken in seconds.items():
        if taken and taken / row["compile_s"]["kiln"] < COMPILE:
            times = taken / row["compile_s"]["kiln"]
            yield f"{row['name']}: compiles {times:.1f}x as fast as {label}, wanted {COMPILE:.0f}x"


def missed_starts(row):
    served, eager = row.get("served", {}).get("kiln"), row.get("fresh", {}).get("eager")
    if served and eager and started(served) - eager["first_call_ms"] > START_MS:
        over = started(served) - eager["first_call_ms"]
        yield f"{row['name']}: first result in a new process {over:.0f} ms above eager's, wanted {START_MS:.0f}"
    if served and row["name"] == "gpt2" and served["load_ms"] > GPT2_LOAD_MS:
        yield f"gpt2: loads in {served['load_ms']:.0f} ms, wanted {GPT2_LOAD_MS:.0f}"


def missed(rows):
    """The targets that these rows do not reach, in words."""
    return [*missed_speed(rows), *(miss for row in rows for part in (missed_compiles, missed_starts) for miss in part(row))]


def missed_before(rows):
    """Where this build falls behind the one before it, in words."""
    def mean(of):
        return geometric_mean(of(row) for row in rows)

    misses = [f"{row['name']}: {row['ratio']['before']:.2f}x of what it was, wanted {ROW_BEFORE}x"
              for row in rows if row["ratio"]["before"] < ROW_BEFORE]
    speed = mean(lambda row: row["ratio"]["before"])
    compiles = mean(lambda row: row["compile_s"]["kiln"] / row["compile_s"]["before"])
    sizes = max((row["megabytes"]["kiln"] / row["megabytes"]["before"], row["name"]) for row in rows)
    if speed < MEAN_BEFORE:
        misses.append(f"geometric mean {speed:.3f}x of what it was, wanted {MEAN_BEFORE}x")
    if compiles > COMPILE_BEFORE:
        misses.append(f"compiles take {compiles:.2f}x as long on the geometric mean, wanted {COMPILE_BEFORE}x")
    if sizes[0] > SIZE_BEFORE:
        misses.append(f"{sizes[1]}: its package is {sizes[0]:.2f}x as large, wanted {SIZE_BEFORE}x")
    return misses


def before_table(rows):
    """What another build of Kiln takes over what this one takes."""
    lines = [f"{'over this build':30s} {'call':>7s} {'compile':>8s} {'package':>8s}"]
    ratios = [(row["ratio"]["before"], row["compile_s"]["before"] / row["compile_s"]["kiln"],
               row["megabytes"]["before"] / row["megabytes"]["kiln"]) for row in rows]
    means = tuple(geometric_mean(column) for column in zip(*ratios, strict=True))
    names = [*(row["name"] for row in rows), "geometric mean"]
    for name, (call, compiling, size) in zip(names, [*ratios, means], strict=True):
        lines.append(f"  {name:28s} {call:6.3f}x {compiling:7.2f}x {size:7.3f}x")
    return "\n".join(lines)
