"""unisono.jax in jobs that fail or end early, where JAX is missing, and the example that trains."""

import re
import signal
import subprocess
import sys
import unittest
from pathlib import Path

from jobs import UNISONO, JobTest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/python/train_jax.py"
JAX = """
import jax, jax.numpy as jnp
import unisono.jax as ujax

def reported(f, *x):
    try:
        jax.block_until_ready(f(*x))
    except jax.errors.JaxRuntimeError as error:
        print(*str(error).splitlines(), flush=True)
        return ujax.error_of(error)
    raise SystemExit("no error")

x = jnp.ones((300, 300))  # enough that JAX would go on before it is done
step = jax.jit(lambda x: ujax.all_reduce(jnp.tanh(x @ x)))
"""
AT_ONCE = {"JAX_CPU_ENABLE_ASYNC_DISPATCH": "1"}


class Jobs(JobTest):
    @staticmethod
    def environment(**more):
        return JobTest.environment(**({"JAX_PLATFORMS": "cpu"} | more))

    def program(self, text, name="program.py"):
        return super().program(JAX + text, name)

    def test_a_rank_that_dies_is_named(self):
        for how in ({}, AT_ONCE):
            output = self.ranks(
                """
unisono.initialize(timeout=60)
step(x).block_until_ready()
if unisono.rank() == 1:
    os.kill(os.getpid(), signal.SIGKILL)
error = reported(step, x)
print("it was", error.culprit, error.cause.name, type(error) is unisono.PeerFailed, flush=True)
ujax.forget_errors()
group = unisono.shrink_group(unisono.world())
print("left", jax.jit(lambda x: ujax.all_reduce(x, group=group))(x)[0, 0], flush=True)
os._exit(0)
""",
                n=3,
                expect=128 + signal.SIGKILL,
                **how,
            )
            for rank in (0, 2):
                lines = "\n".join(self.lines(output, rank))
                self.assertRegex(lines, r"UNAVAILABLE: unisono\.PeerFailed: .*rank 1")
                self.assertIn("it was 1 killed True", lines)
                self.assertIn("left 2.0", lines)

    def test_a_mismatch_and_a_timeout_come_out_of_compiled_functions(self):
        for how in ({}, AT_ONCE):
            output = self.ranks(
                """
unisono.initialize(timeout=60)
late = "late" + os.environ.get("JAX_CPU_ENABLE_ASYNC_DISPATCH", "")
error = reported(step, x[: 300 - unisono.rank(), : 300 - unisono.rank()])
print(type(error).__name__, "program.py" in str(error.where), flush=True)
ujax.forget_errors()
step(x).block_until_ready()
try:
    with ujax.library_errors():
        y = step(x.astype("bfloat16" if unisono.rank() else "float32"))
except unisono.Mismatch as error:
    print("again", error.operation, flush=True)
step(x).block_until_ready()
jax.effects_barrier()
if unisono.rank() == 0:
    error = reported(jax.jit(lambda x: ujax.broadcast(jnp.tanh(x @ x), 1, timeout=0.5)), x)
    print(type(error).__name__, error.missing, flush=True)
    open(late, "w").close()
while not os.path.exists(late):
    time.sleep(0.01)
os._exit(0)
""",
                **how,
            )
            self.assertEqual(output.count("FAILED_PRECONDITION: unisono.Mismatch: "), 2, output)
            self.assertEqual(output.count("Mismatch True"), 2, output)
            self.assertEqual(output.count("again all_reduce"), 2, output)
            self.assertIn("DEADLINE_EXCEEDED: unisono.Timeout: ", output)
            self.assertIn("Timeout [1]", output)

    def test_shapes_of_one_length_are_compared_where_that_is_asked_for(self):
        text = """
unisono.initialize(timeout=60)
f = jax.jit(ujax.all_reduce)
y = jnp.ones((2, 3) if unisono.rank() else (3, 2))
if "UNISONO_COMPARE" in os.environ: reported(f, y)
else: print("sum", f(y).sum())
"""
        self.assertEqual(self.ranks(text).count("sum 12.0"), 2)
        output = self.ranks(text, UNISONO_COMPARE="shapes")
        self.assertEqual(output.count("unisono.Mismatch: "), 2, output)

    def test_ctrl_c_ends_a_compiled_call(self):
        for how in ({}, AT_ONCE):
            path = self.program("""
unisono.initialize(init_method="file://" + sys.argv[1], rank=int(sys.argv[2]), world_size=2)
step(x).block_until_ready()
if unisono.rank() == 1:
    input()
    print("told:", reported(step, x), flush=True)
    os._exit(0)
print("waits", flush=True)
try:
    try:
        with ujax.library_errors(): step(x)
    except KeyboardInterrupt: print("interrupted", flush=True)
    time.sleep(60)
except KeyboardInterrupt: print("again", flush=True)
step(x).block_until_ready()
""")
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": self.environment(**how)}
            meeting = str(self.folder / f"meeting{len(how)}")
            ranks = [subprocess.Popen([sys.executable, path, meeting, str(rank)], **pipes) for rank in range(2)]
            try:
                self.assertEqual(ranks[0].stdout.readline(), "waits\n")
                with self.assertRaises(subprocess.TimeoutExpired):
                    ranks[0].wait(0.5)
                ranks[0].send_signal(signal.SIGINT)
                self.assertEqual(ranks[0].stdout.readline(), "interrupted\n")
                ranks[0].send_signal(signal.SIGINT)  # nobody waits now: it is Python's
                self.assertEqual(ranks[0].stdout.readline(), "again\n")
                self.assertRegex(ranks[1].communicate("\n", timeout=60)[0], "PeerFailed: .*KeyboardInterrupt")
                error = ranks[0].communicate(timeout=60)[1]
                self.assertEqual(ranks[0].returncode, 1)
                self.assertRegex(error, "JaxRuntimeError: UNAVAILABLE: unisono.PeerFailed: .*KeyboardInterrupt")
            finally:
                for rank in ranks:
                    with rank:
                        rank.kill()

    def test_a_function_traced_in_another_world_is_refused(self):
        output = self.ranks("""
world_of = lambda n: dict(init_method=f"file://{os.getcwd()}/{n}", rank=unisono.rank() if n == 2 else 0, world_size=n)
rank = int(os.environ["RANK"])
gather = jax.jit(ujax.all_gather)
unisono.initialize(init_method=f"file://{os.getcwd()}/both", rank=rank, world_size=2)
assert gather(rank).tolist() == [0, 1]
unisono.finalize()
reported(gather, rank)
unisono.initialize(init_method=f"file://{os.getcwd()}/alone{rank}", rank=0, world_size=1)
reported(gather, rank)
jax.clear_caches()
assert gather(rank).tolist() == [rank]
alone = jax.jit(ujax.all_reduce)
assert alone(2) == 2
def thread(r):
    try: ujax.all_reduce(x)
    except unisono.Unsupported as error: print(error, flush=True)
    reported(alone, 2)
unisono.run_threads(2, thread)
""")
        self.assertEqual(output.count("unisono.NotInitialized: "), 2, output)
        self.assertEqual(output.count("the function was traced in a world of 2, and this one has 1 (jax.clear_caches()"), 2, output)
        self.assertEqual(output.count(": the ranks of run_threads share one JAX"), 8, output)

    def test_calls_under_way_are_made_before_a_program_ends(self):
        """Calls that are under way when the program ends are carried out; an error in them is no second one."""
        output = self.ranks("unisono.initialize(timeout=30)\nfor _ in range(20): x = step(x) / 600\n", **AT_ONCE)
        self.assertNotIn("rror", output)
        output = self.ranks("unisono.initialize(timeout=30)\nif unisono.rank(): raise ValueError('bad data')\nstep(x)\n", expect=None, **AT_ONCE)
        self.assertRegex("\n".join(self.lines(output, 0)), r"PeerFailed: .*rank 1.*ValueError: bad data")

    def test_arrays_on_any_one_device_of_the_cpu_are_taken(self):
        output = self.alone(
            """
from jax.sharding import Mesh, NamedSharding, PartitionSpec
spread = jax.device_put(jnp.ones(4), NamedSharding(Mesh(np.array(jax.devices()), "i"), PartitionSpec("i")))
assert ujax.all_reduce(jax.device_put(jnp.ones(4), jax.devices()[1])).tolist() == [1, 1, 1, 1]
try: ujax.all_reduce(spread)
except ValueError as error: print(error)
""",
            XLA_FLAGS="--xla_force_host_platform_device_count=2",
        )
        self.assertIn("not supported for more than 1 device: [calls of unisono.jax", output)

    def test_a_missing_jax_is_named(self):
        for found, text in (
            ("sys.modules['jax'] = None", "ModuleNotFoundError: unisono.jax needs JAX 0.5 or newer: pip install jax"),
            ("import jax; jax.__version_info__, jax.__version__ = (0, 4, 30), '0.4.30'", "ImportError: unisono.jax needs JAX 0.5 or newer; this is JAX 0.4.30"),
            ("import jax._src.dispatch as d; del d.runtime_tokens", "ImportError: unisono.jax does not know JAX"),
        ):
            program = f"import sys\n{found}\ntry: import unisono.jax\nexcept ImportError as error: print(type(error).__name__ + ':', error)"
            self.assertIn(text, self.run_command([sys.executable, "-c", program]))

    def test_the_example_trains_as_one_process_does(self):
        results = {}
        for n in (1, 2, 4):
            command = [UNISONO, "run", "-n", str(n), "--", sys.executable, str(EXAMPLE), "--epochs", "2", "--save", str(self.folder / f"{n}.npz")]
            output = self.run_command(command, timeout=300)
            results[n] = re.search(r"epoch 2: loss ([\d.]+), (\d+) of 297", output).groups()
        import numpy as np

        one = np.load(self.folder / "1.npz")
        for n in (2, 4):
            several = np.load(self.folder / f"{n}.npz")
            for name in one.files:
                np.testing.assert_allclose(several[name], one[name], rtol=1e-3, atol=1e-5)
            self.assertAlmostEqual(float(results[n][0]), float(results[1][0]), places=3)
        self.assertGreater(int(results[1][1]), 240)


if __name__ == "__main__":
    if not UNISONO:
        sys.exit("the command unisono is not on PATH, and UNISONO_COMMAND does not name it")
    unittest.main()
