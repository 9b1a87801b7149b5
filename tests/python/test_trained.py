"""What was trained: policies that act, networks that infer, records. ESPER_TEST_RUN names the folder of run_python.sh."""
import csv
import json
import os
import subprocess
import sys
import unittest

import numpy as np

import esper
from rig import Case, RUN, small

FIRST, EVALUATED = os.path.join(RUN, "runs/first"), os.path.join(RUN, "runs/first-eval-ppo")


def tensors(path):
    with open(path, "rb") as file:
        data = file.read()
    size = int.from_bytes(data[:8], "little")
    kinds = {"F32": np.float32, "U8": np.uint8}
    return {name: np.frombuffer(data[8 + size:][slice(*entry["data_offsets"])], kinds[entry["dtype"]]).reshape(
        entry["shape"]) for name, entry in json.loads(data[8:8 + size]).items() if entry.get("dtype") in kinds}


class Policies(Case):
    def same_as_eval(self, run, greedy, mode):
        """The same episodes, the same outcomes, to the bit."""
        with esper.Run(run) as record:
            expected = record.query("select *, round - 8388608 as episode from outcome order by round, env")
        env, policy = esper.VectorEnv(run=FIRST, autoreset_mode=mode), esper.Policy(FIRST)
        env.reset()
        rows, germinated = [], 0
        while len(rows) < len(expected["env"]):
            _, _, terminated, _, _ = env.step(policy.act(env, greedy=greedy))
            if terminated.all():
                rows += list(env.outcomes)
                germinated += env.outcomes["germinated"].sum()
        self.assertGreater(germinated, 0)
        for ours, theirs in (("episode", "episode"), ("env", "env"), ("val_score", "val_accuracy"),
                             ("test_score", "test_accuracy"), ("val_loss", "val_loss"), ("reward", "reward"),
                             ("stability", "stability"), ("added_params", "added_params"),
                             ("germinated", "germinated"), ("fossilized", "fossilized"), ("pruned", "pruned"),
                             ("rollbacks", "rollbacks"), ("live", "live"), ("train_work", "train_work")):
            np.testing.assert_array_equal([row[ours] for row in rows], expected[theirs], ours)

    def test_same_as_eval(self):
        self.same_as_eval(EVALUATED, False, "NextStep")
        self.same_as_eval(EVALUATED, False, "SameStep")
        self.same_as_eval(EVALUATED + "-greedy", True, "NextStep")

    def test_wrong(self):
        self.refused("cannot open", esper.Policy, "/nowhere/run")
        self.refused("zero byte", esper.Policy, "a\0b")
        policy = esper.Policy(FIRST)
        env = small(settings={"slots": ["r0c0"]})
        env.reset()
        self.refused("slots", policy.act, env)
        env.close()
        self.refused("is closed", policy.act, env)
        policy.close()
        policy.close()
        self.refused("is closed", policy.act, small())

    def test_anew(self):
        """An environment that was opened again is another one, even at the same address."""
        policy, said = esper.Policy(FIRST), []
        for _ in range(3):
            env = esper.VectorEnv(run=FIRST)
            env.reset()
            actions = []
            for _ in range(4):
                actions.append(policy.act(env))
                env.step(actions[-1])
            said.append(np.stack(actions))
            env.close()
        np.testing.assert_array_equal(said[0], said[1])
        np.testing.assert_array_equal(said[0], said[2])


class Networks(Case):
    def test_same_as_infer(self):
        answer = tensors(os.path.join(RUN, "logits.safetensors"))
        for source, limit in (("grown.onnx", 0), ("grown.safetensors", 1e-6), ("runs/first", 1e-6)):
            network = esper.Network(os.path.join(RUN, source))
            logits = network.infer(answer["images"])
            self.assertEqual(logits.shape, (len(answer["images"]), network.classes))
            self.assertLessEqual(abs(logits - answer["logits"]).max(), limit)
            self.assertIn("network of first", network.source)
        self.assertEqual(network.infer(answer["images"][:0]).shape, (0, network.classes))
        np.testing.assert_array_equal(network.infer(answer["images"][::2]), logits[::2])  # any layout
        self.refused("uint8 (n, 16, 16, 3)", network.infer, answer["images"].astype(float))
        self.refused("uint8 (n, 16, 16, 3)", network.infer, answer["images"][0])
        self.refused("uint8", network.infer, 3)
        self.refused("/nowhere/x.onnx", esper.Network, "/nowhere/x.onnx")
        network.close()
        self.refused("is closed", network.infer, answer["images"])


class Records(Case):
    def test_columns(self):
        with esper.Run(FIRST) as run:
            asked = subprocess.run([os.environ["ESPER"], "sql", FIRST, "select * from step order by round, step, env",
                                    "--csv", "--rows", "1000000"], capture_output=True, check=True, text=True)
            rows = list(csv.DictReader(asked.stdout.splitlines()))
            steps = run.query("select * from step order by round, step, env")
            self.assertEqual(list(steps), run.tables["step"])
            self.assertEqual(len(steps["step"]), len(rows))
            self.assertGreater(len(rows), 20)
            self.assertEqual(steps["step"].dtype, np.int64)
            self.assertEqual(steps["reward"].dtype, np.float64)
            for name, column in steps.items():
                for value, row in zip(column, rows):
                    if row[name] == "":
                        self.assertTrue(value is None or value != value, name)
                    else:
                        self.assertEqual(value, type(value)(row[name]), name)
            self.assertEqual(run.config["envs"], 2)
            self.assertIn("round", run.tables)
            np.testing.assert_array_equal(run["round"]["round"], [0])
            self.assertIn("reward", run.help("round")["reward_mean"])
            self.assertEqual(len(run.query("select * from round where round > 99")["round"]), 0)
            self.refused("may only read", run.query, "delete from round")
            self.refused("", run.query, "select nothing from round")
            self.refused("zero byte", run.query, "select '\0'")
            self.assertRaises(KeyError, lambda: run["nothing"])
            self.assertRaises(KeyError, run.help, "nothing")
        self.refused("is closed", run.query, "select 1")
        self.refused("cannot open", esper.Run, "/nowhere/run")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
