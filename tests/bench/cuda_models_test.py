"""What ./dev bench cuda models does with numbers, and with processes that fail (tools/bench/cuda_models)."""

import pathlib
import sys
import tempfile
import unittest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "tools" / "bench"
sys.path[:0] = [str(BENCH), str(BENCH / "cuda_models")]

import device_memory
import processes
import targets

FOUND = {
    "kiln graphs": {"ms": 1.0, "memory": 500},
    "reduce-overhead": {"ms": 1.2, "memory": 1000},
    "kiln": {"ms": 2.0, "compile_s": 1.0, "load_ms": 10.0, "error": 0.01, "eager_error": 0.01},
    "torch.compile": {"ms": 4.0, "compile_s": 10.0, "eager_ms": 8.0},
    "AOTInductor": {"ms": 3.0, "load_ms": 40.0, "compile_s": 100.0},
}


def changed(part, **values):
    return {"model": FOUND | {part: FOUND[part] | values}}


class Targets(unittest.TestCase):
    def texts(self, models):
        return [miss.text for miss in targets.missed(models)]

    def test_what_is_met_is_no_miss(self):
        self.assertEqual(self.texts({"model": FOUND}), [])

    def test_each_target_can_be_missed(self):
        for part, values, text in (
            ("reduce-overhead", {"ms": 0.9}, "graphs 0.90x"), ("torch.compile", {"ms": 2.8}, "plain 1.40x"),
            ("AOTInductor", {"ms": 2.2}, "AOTInductor 1.10x"), ("torch.compile", {"compile_s": 5.0}, "compile 5.00x"),
            ("kiln graphs", {"memory": 1100}, "memory 1.10x"), ("AOTInductor", {"load_ms": 16.0}, "load 0.62x"),
            ("kiln", {"error": 0.02}, "error 2.00x"),
        ):
            misses = self.texts(changed(part, **values))
            self.assertTrue(any(text in miss for miss in misses), (text, misses))

    def test_one_model_has_a_target_of_its_own(self):
        self.assertEqual(len(self.texts({"resnet18 32x224": FOUND})), 1)

    def test_a_peer_that_failed_is_no_miss_and_is_named(self):
        found = FOUND | {"AOTInductor": {"failed": "crashed with SIGSEGV"}}
        self.assertEqual(self.texts({"model": found}), [])
        self.assertIn("AOTInductor: crashed with SIGSEGV", targets.described("model", found))

    def test_kiln_that_failed_is_a_miss(self):
        self.assertEqual(self.texts({"model": FOUND | {"kiln": {"failed": "why"}}}), ["model: kiln: why"])
        self.assertEqual(len(self.texts({"model": {}})), 2)

    def test_what_is_written_off_has_a_reason(self):
        models = changed("AOTInductor", ms=2.2)
        targets.WRITTEN_OFF[("model", "AOTInductor")] = "a reason"
        try:
            self.assertEqual([miss.reason for miss in targets.missed(models)], ["a reason"])
        finally:
            targets.WRITTEN_OFF.clear()

    def test_the_picture_has_what_both_sides_have(self):
        rows = targets.drawn({"model": FOUND | {"reduce-overhead": {"failed": "why"}}})
        self.assertEqual([row["what"] for row in rows], ["model, plain"])
        self.assertEqual(rows[0]["ratio"], {"kiln": 1.0, "torch.compile": 2.0, "AOTInductor": 1.5})


class Processes(unittest.TestCase):
    def outcome(self, program, seconds=20.0):
        with tempfile.TemporaryDirectory() as folder:
            return processes.run([sys.executable, "-c", program], pathlib.Path(folder) / "log", seconds)

    def test_success_says_nothing(self):
        self.assertIsNone(self.outcome("print('done')"))

    def test_failures_are_told_apart(self):
        self.assertEqual(self.outcome("import os; os.kill(os.getpid(), 11)"), "crashed with SIGSEGV")
        self.assertEqual(self.outcome("print('hint'); raise ValueError('why')"), "ValueError: why")
        self.assertEqual(self.outcome("import time; time.sleep(60)", 0.5), "took more than 0.5 s")
        self.assertEqual(self.outcome("", 0), "no time was left")


class Memory(unittest.TestCase):
    def test_only_the_phase_counts_and_what_was_taken_before_does_not(self):
        used, phase = [100], [False]
        looked = lambda: device_memory.time.sleep(10 * device_memory.INTERVAL)
        with device_memory.Watch(lambda: used[0], lambda: phase[0]) as watch:
            used[0] = 900
            looked()
            used[0], phase[0] = 350, True
            looked()
            used[0], phase[0] = 250, True
            looked()
        self.assertEqual(watch.most, 250)

    def test_nothing_was_seen_without_a_phase(self):
        with device_memory.Watch(lambda: 1, lambda: False) as watch:
            device_memory.time.sleep(5 * device_memory.INTERVAL)
        self.assertIsNone(watch.most)


if __name__ == "__main__":
    unittest.main()
