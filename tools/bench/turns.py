"""Candidates taking turns: each peer runs between two runs of Kiln.

What slows a machine for a second slows a peer and its neighbours alike, so a ratio is the peer's time over the mean of
the two around it.
"""

import math
import statistics
import time

# With five of them, programs that hardly differ were at 1.02x in one run and at 1.00x in the next; on a machine whose
# cores others use too, with twelve.
FEWEST_ROUNDS = 30


def repeat(call, times):
    """Results are dropped one by one: to hold all of them is to ask the system for new memory in each call."""
    for _ in range(times):
        call()


def ratios(turns):
    """How many times as long as Kiln, for each turn of a peer: (its time, Kiln's before it, Kiln's after it)."""
    return [peer / math.sqrt(before * after) for peer, before, after in turns]


def is_settled(numbers):
    """Whether their median is above or below 1, as 19 of 20 such samples would say."""
    ordered = sorted(numbers)
    aside = math.ceil(len(ordered) / 2 - 0.98 * math.sqrt(len(ordered)))
    return aside > 0 and (ordered[aside - 1] > 1 or ordered[-aside] < 1)


def alternate(calls, seconds, clock=time.perf_counter, fewest=FEWEST_ROUNDS):
    """For each peer its turns, in milliseconds a call; at least `fewest`."""

    def timed(label):
        start = clock()
        repeat(calls[label], repeats[label])
        return (clock() - start) / repeats[label] * 1e3

    repeats = dict.fromkeys(calls, 1)
    for label, call in calls.items():
        call()
        repeats[label] = max(1, int(30 / max(timed(label), 1e-3)))
    turns = {label: [] for label in calls if label != "kiln"}
    end = time.perf_counter() + seconds
    before, rounds = timed("kiln"), 0
    while rounds < fewest or time.perf_counter() < end or (
            rounds < 2 * fewest and not all(is_settled(ratios(taken)) for taken in turns.values())):
        rounds += 1
        for label, taken in turns.items():
            peer, after = timed(label), timed("kiln")
            taken.append((peer, before, after))
            before = after
    return turns


def summary(turns):
    """The shortest time of each candidate, and each peer's median ratio with its spread.

    Kiln runs once for each peer: of one peer's rounds, so that its shortest is one of as many as theirs.
    """
    shortest = {"kiln": min(before for _, before, _ in next(iter(turns.values())))}
    shortest |= {label: min(peer for peer, *_ in taken) for label, taken in turns.items()}
    ordered = {"kiln": [1.0]} | {label: sorted(ratios(taken)) for label, taken in turns.items()}
    return {"ms": shortest,
            "ratio": {label: statistics.median(numbers) for label, numbers in ordered.items()},
            "spread": {label: [numbers[len(numbers) // 10], numbers[-1 - len(numbers) // 10]]
                       for label, numbers in ordered.items()}}
