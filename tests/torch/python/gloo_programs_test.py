"""Programs that name gloo, written for pytorch-ignite, Lightning, Accelerate and Transformers' Trainer: each over gloo, and unchanged with
UNISONO_STAND_IN=gloo, gives equal results. Accelerate and the Trainer also take a process group "unisono" that was started before them."""

import importlib.util
import json
import re
import sys
import unittest
from pathlib import Path

from jobs import UNISONO
from stand_in_test import StandInTest

PROGRAMS = Path(__file__).resolve().parent / "gloo_programs"


class GlooPrograms(StandInTest):
    variables = {"UNISONO_LOG": "debug", "HF_HUB_OFFLINE": "1"}

    def setUp(self):
        super().setUp()
        if not UNISONO:
            self.skipTest("the command unisono is not on PATH, and UNISONO_COMMAND does not name it")

    def run_program(self, name, backend, stand_in, start):
        """What each rank has printed, and whether unisono has made a group, of which it tells with UNISONO_LOG=debug."""
        self.added.update(FOLDER=str(self.folder), **({"UNISONO_STAND_IN": "gloo"} if stand_in else {}))
        if not stand_in:
            self.added.pop("UNISONO_STAND_IN", None)
        output = self.run_command([*start, str(PROGRAMS / f"{name}_program.py"), backend])
        results = {int(rank): json.loads(text) for rank, text in re.findall(r"result (\d+) (\{.*\})", output)}
        self.assertEqual(sorted(results), [0, 1], output)
        return results, "group world: rank 1 of 2, engine" in output, set(re.findall(r"backend (\w+)", output))

    UNDER_UNISONO = [UNISONO, "run", "-n", "2", "--", sys.executable]
    UNDER_TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]

    def compare(self, package, name, backend, start):
        if importlib.util.find_spec(package) is None:
            self.skipTest(f"the package {package} is not installed")
        over_gloo, ours, named = self.run_program(name, backend, False, start)
        self.assertFalse(ours)
        stood_in, ours, named_then = self.run_program(name, backend, True, start)
        self.assertTrue(ours)
        self.assertEqual(named, named_then)
        self.maxDiff = None
        self.assertEqual(over_gloo, stood_in)
        return over_gloo

    def test_ignite_computes_what_it_does_on_gloo(self):
        for start in (self.UNDER_TORCHRUN, self.UNDER_UNISONO):
            results = self.compare("ignite", "ignite", "gloo", start)
            self.assertEqual(results[0]["backend"], "gloo")
            self.assertEqual(results[0]["weights"], results[1]["weights"])

    def test_lightning_computes_what_it_does_on_gloo(self):
        results = self.compare("lightning", "lightning", "gloo", self.UNDER_TORCHRUN)
        self.assertEqual(results[1]["path"], "of rank 0")

    def test_accelerate_computes_what_it_does_on_gloo(self):
        results = self.compare("accelerate", "accelerate", "own", self.UNDER_TORCHRUN)
        self.check_before_the_start("accelerate", results)

    def test_the_trainer_of_transformers_computes_what_it_does_on_gloo(self):
        results = self.compare("transformers", "trainer", "own", self.UNDER_TORCHRUN)
        self.check_before_the_start("trainer", results)

    def check_before_the_start(self, name, expected):
        results, ours, named = self.run_program(name, "unisono", False, self.UNDER_UNISONO)
        self.assertTrue(ours)
        self.assertEqual(named, {"unisono"})
        self.assertEqual(results, expected)


if __name__ == "__main__":
    unittest.main(verbosity=2)
