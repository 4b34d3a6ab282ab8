"""How ./dev bench compares times (tools/bench/turns.py)."""

import pathlib
import random
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "bench"))

import turns


class Clock:
    """Time that passes only where a call says so, and twice as fast in every other part of it."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def call(self, milliseconds, calls):
        def run():
            calls.append(milliseconds)
            self.now += milliseconds / 1e3 * (2 if len(calls) % 40 < 20 else 1)

        return run


class Ratios(unittest.TestCase):
    def test_a_peer_is_compared_with_the_runs_around_it(self):
        self.assertEqual(turns.ratios([(4.0, 1.0, 4.0), (3.0, 2.0, 2.0)]), [2.0, 1.5])

    def test_settled_is_what_another_sample_would_say_too(self):
        self.assertFalse(turns.is_settled([1.1]))
        self.assertTrue(turns.is_settled([1.1] * 30))
        self.assertTrue(turns.is_settled([0.9] * 30))
        self.assertFalse(turns.is_settled([0.9, 1.1] * 15))
        draw = random.Random(0)
        level = sum(turns.is_settled([draw.gauss(1, 0.1) for _ in range(30)]) for _ in range(1000))
        self.assertLess(level, 80)  # Of what is level 1 of 20 may seem settled.


class Rounds(unittest.TestCase):
    def rounds_of(self, peer):
        clock, calls = Clock(), []
        made = {"kiln": clock.call(40.0, calls), "peer": clock.call(peer, calls)}
        taken = turns.alternate(made, 0, clock)
        return taken["peer"], turns.summary(taken)

    def test_a_machine_that_is_slow_at_times_changes_no_ratio(self):
        taken, found = self.rounds_of(60.0)
        self.assertEqual(len(taken), turns.FEWEST_ROUNDS)
        self.assertAlmostEqual(found["ratio"]["peer"], 1.5)
        self.assertEqual(found["ratio"]["kiln"], 1.0)
        self.assertAlmostEqual(found["ms"]["peer"], 60.0)
        self.assertAlmostEqual(found["ms"]["kiln"], 40.0)

    def test_who_is_level_gets_more_rounds(self):
        taken, found = self.rounds_of(40.0)
        self.assertEqual(len(taken), 2 * turns.FEWEST_ROUNDS)
        self.assertAlmostEqual(found["ratio"]["peer"], 1.0)

    def test_shortest_times_are_of_as_many_runs(self):
        found = turns.summary({"one": [(5.0, 4.0, 3.0), (6.0, 3.0, 4.0)], "two": [(7.0, 1.0, 2.0), (7.0, 1.0, 4.0)]})
        self.assertEqual(found["ms"], {"kiln": 3.0, "one": 5.0, "two": 7.0})

    def test_every_peer_runs_between_two_runs_of_kiln(self):
        clock, calls = Clock(), []
        made = {name: clock.call(time, calls) for name, time in {"kiln": 40.0, "one": 50.0, "two": 60.0}.items()}
        turns.alternate(made, 0, clock)
        in_turn = calls[2 * len(made) :]  # Each was called twice, to see how long it takes.
        self.assertEqual(in_turn[:5], [40.0, 50.0, 40.0, 60.0, 40.0])


if __name__ == "__main__":
    unittest.main()
