"""unisono.jax among the ranks: every operation and dtype, within jit and its control flow, derivatives, vmap, order, and what is refused."""

import os
import unittest

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp
import numpy as np
from jax import lax

import unisono
import unisono.jax as ujax
from ranks import DTYPES, RankTest, main

ALL = [*DTYPES, "bfloat16"]
OPS = ["sum", "product", "min", "max", "avg", "band", "bor", "bxor", "land", "lor"]


class JaxTest(RankTest):
    def mine(self, shape, dtype="float64"):
        return jnp.asarray(super().mine(shape, "float64" if dtype == "bfloat16" else dtype), dtype)

    def all(self, shape, dtype="float64"):
        return [np.asarray(jnp.asarray(x, dtype)) for x in super().all(shape, "float64" if dtype == "bfloat16" else dtype)]


class Operations(JaxTest):
    def test_every_operation_is_right_on_every_dtype(self):
        for dtype in ALL:
            own, every = self.mine((2 * self.size, 3), dtype), self.all((2 * self.size, 3), dtype)
            stack = np.stack(every)
            total = stack.any(axis=0) if dtype == "bool" else stack.sum(axis=0, dtype=stack.dtype)
            root = self.size - 1

            @jax.jit
            def f(x):
                return (
                    ujax.all_reduce(x), ujax.all_gather(x), ujax.reduce_scatter(x), ujax.all_to_all(x), ujax.broadcast(x, root), ujax.reduce(x, root),
                    ujax.send_recv(x, (self.rank + 1) % self.size, (self.rank - 1) % self.size),
                )  # fmt: skip

            blocks = stack.reshape(self.size, self.size, 2, 3)
            expected = (
                total, stack, total.reshape(self.size, 2, 3)[self.rank], blocks[:, self.rank].reshape(own.shape), every[root],
                total if self.rank == root else np.zeros_like(total), every[self.rank - 1],
            )  # fmt: skip
            for results in (f(own), f.__wrapped__(own)):  # compiled together, and one by one
                for y, e in zip(results, expected, strict=True):
                    self.assertEqual((y.dtype, y.shape), (own.dtype, e.shape))
                    self.same(y, e, dtype)

    def test_every_reduction_is_the_librarys(self):
        for dtype in ALL:
            x = self.mine((5,), dtype)
            for op in OPS:
                try:
                    expected = unisono.all_reduce(np.array(x), op)
                except unisono.InvalidArgument:
                    self.refused(unisono.InvalidArgument, f"all_reduce: {op} is not defined on {dtype}", jax.jit(lambda x: ujax.all_reduce(x, op)), x)
                    continue
                self.same(jax.jit(lambda x: ujax.all_reduce(x, unisono.ReduceOp[op]))(x), expected, f"{op} {dtype}")
                self.same(ujax.reduce_scatter(jnp.tile(x, self.size), op), expected, f"{op} {dtype}")

    def test_every_function_is_documented_and_annotated(self):
        self.assertEqual([name for name in ujax.__all__ if not getattr(ujax, name).__doc__ or not getattr(ujax, name).__annotations__], [])

    def test_arrays_of_every_size_are_reduced_and_gathered(self):
        for n in (0, 1, 2, 7, 1023, 1 << 20):
            self.same(ujax.all_reduce(self.mine((n,), "float32")), sum(self.all((n,), "float32")))
            self.same(ujax.all_gather(self.mine((n, 2), "int16")), np.stack(self.all((n, 2), "int16")))
        self.assertEqual(ujax.all_reduce(2.0 * self.rank), self.size * (self.size - 1))
        self.assertEqual(ujax.all_gather(self.rank).tolist(), list(range(self.size)))

    def test_trees_are_reduced_leaf_by_leaf_in_any_group(self):
        tree = {"a": self.mine((3,)), "b": [self.mine((2, 2), "int32"), jnp.float32(self.rank)]}
        total = jax.jit(ujax.all_reduce)(tree)
        self.same(total["a"], sum(self.all((3,))))
        self.same(total["b"][0], sum(self.all((2, 2), "int32")))
        self.assertEqual(total["b"][1], self.size * (self.size - 1) / 2)
        half = unisono.split_group(unisono.world(), self.rank % 2, -self.rank)
        members = [r for r in reversed(range(self.size)) if r % 2 == self.rank % 2]
        f = jax.jit(lambda x: (ujax.all_gather(x, group=half), ujax.broadcast(x, unisono.GlobalRank(members[-1]), half), ujax.all_reduce(x, "max")))
        gathered, first, largest = f(jnp.int32(self.rank))
        self.assertEqual((gathered.tolist(), int(first), int(largest)), (members, members[-1], self.size - 1))
        del half  # the compiled function keeps it
        self.assertEqual(f(jnp.int32(self.rank))[0].tolist(), members)

    def test_send_recv_passes_arrays_on(self):
        before, after = (self.rank - 1 if self.rank else None), (self.rank + 1 if self.rank + 1 < self.size else None)
        shifted = jax.jit(lambda x: ujax.send_recv(x, after, before))(jnp.arange(4.0) + self.rank)
        self.same(shifted, np.arange(4.0) + self.rank - 1 if self.rank else np.zeros(4))
        here = jnp.full((self.rank + 1,), self.rank, "int16")
        if self.size == 1:
            return self.same(ujax.send_recv(here, 0, 0), here)
        partner = self.rank ^ 1
        if partner < self.size:
            there = jax.ShapeDtypeStruct((partner + 1,), "int16")
            self.same(ujax.send_recv(here, partner, partner, there, tag=3), np.full(partner + 1, partner))


class Flow(JaxTest):
    def test_calls_work_within_loops_and_branches(self):
        x = self.mine((4,))
        total = sum(self.all((4,)))

        @jax.jit
        def f(x):
            scanned = lax.scan(lambda c, i: (ujax.all_reduce(c) / self.size, ujax.broadcast(i * self.rank, self.size - 1)), x, jnp.arange(3.0))
            looped = lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, ujax.all_reduce(s[1], "avg")), (0, x))
            branched = lax.cond(x.sum() < 1e9, lambda x: ujax.all_reduce(x), lambda x: ujax.broadcast(x), x)
            folded = lax.fori_loop(0, 4, lambda i, y: ujax.all_reduce(y, "max"), x)
            ujax.barrier()
            return scanned, looped, branched, folded

        (carry, rows), (count, mean), branched, largest = f(x)
        self.same(jnp.round(carry * self.size, 9), total)
        self.same(rows, np.arange(3.0) * (self.size - 1))
        self.assertEqual(int(count), 3)
        np.testing.assert_allclose(mean, total / self.size)
        self.same(branched, total)
        self.same(largest, np.max(self.all((4,)), axis=0))

    def test_independent_calls_are_made_in_the_order_of_tracing(self):
        """Calls that XLA might run at once: of different sizes, so that another order is a Mismatch."""

        @jax.jit
        def f(x):
            parts = []
            for i in range(24):
                size = (i * 7919) % 97 + 1
                part = jnp.sin(jnp.tile(x, 200 * size))[:size] if i % 3 else jnp.full((size,), i, x.dtype)
                parts.append(ujax.all_reduce(part).sum() if i % 2 else ujax.all_gather(part).sum())
            return jnp.stack(parts)

        x = jnp.arange(64.0)
        first = np.asarray(f(x))
        for _ in range(20):
            results = [f(x), f(x + 0), jnp.float64(0) * f(x)[0]]  # dispatched one behind the other
            self.same(results[0], first)
            self.same(results[1], first)

    def test_calls_whose_results_nobody_uses_are_made(self):
        @jax.jit
        def f(x):
            ujax.all_reduce(x[:1] if self.rank else x[:1])
            ujax.barrier()
            return x + 1

        self.same(f(jnp.zeros(2)), np.ones(2))
        self.same(ujax.all_reduce(jnp.ones(3)), np.full(3, self.size))


class Derivatives(JaxTest):
    def linear(self):
        ring = (self.rank + 1) % self.size, (self.rank - 1) % self.size
        return {
            "all_reduce": ujax.all_reduce, "mean": lambda x: ujax.all_reduce(x, "avg"), "all_gather": ujax.all_gather,
            "reduce_scatter": ujax.reduce_scatter, "reduce_scatter avg": lambda x: ujax.reduce_scatter(x, "avg"), "all_to_all": ujax.all_to_all,
            "broadcast": lambda x: ujax.broadcast(x, self.size - 1), "reduce": lambda x: ujax.reduce(x, self.size - 1),
            "reduce avg": lambda x: ujax.reduce(x, 0, "avg"), "send_recv": lambda x: ujax.send_recv(x, *ring),
        }  # fmt: skip

    def test_transposes_and_tangents_are_those_of_one_linear_function(self):
        """<w, f(v)> summed over the ranks is <f'(w), v> summed over the ranks; the tangent of a linear function is the function."""
        rng = np.random.default_rng(self.rank)
        for name, f in self.linear().items():
            for dtype in ("float64", "float32", "complex128"):
                x, v = (jnp.asarray(rng.normal(size=(2 * self.size, 3)), dtype) for _ in range(2))
                y, tangent = jax.jit(lambda x, v, f=f: jax.jvp(f, (x,), (v,)))(x, v)
                np.testing.assert_allclose(tangent, f(v), rtol=1e-5)
                w = jnp.asarray(rng.normal(size=y.shape), dtype)
                out, pullback = jax.vjp(f, x)
                self.same(out, y)
                (back,) = jax.jit(pullback)(w)
                self.assertEqual((back.shape, back.dtype), (x.shape, x.dtype), name)
                sides = unisono.all_reduce(np.array([jnp.sum(w * tangent), jnp.sum(back * v)]))
                np.testing.assert_allclose(sides[0], sides[1], rtol=1e-4 if dtype == "float32" else 1e-9, err_msg=name)

    def test_gradient_is_that_of_the_sum_of_all_losses(self):
        """Against one process that has all ranks' arrays."""
        every = jnp.stack([jnp.asarray(x) for x in self.all((self.size, 2))]) / 7

        def loss_of(x, gathered, total, rank):
            return jnp.sum(jnp.sin(gathered) * (rank + 1)) + jnp.sum(total**2) + jnp.sum(x * (rank + 2))

        def mine(x):
            return loss_of(x, ujax.all_gather(x), ujax.all_reduce(jnp.tanh(x), "avg"), self.rank)

        def of_all(xs):
            return sum(loss_of(xs[r], xs, jnp.tanh(xs).mean(axis=0), r) for r in range(self.size))

        expected = jax.grad(of_all)(every)[self.rank]
        x = every[self.rank]
        for gradient in (jax.grad(mine), jax.jit(jax.grad(mine)), jax.grad(jax.jit(mine)), jax.grad(jax.checkpoint(mine)), jax.jit(jax.jacrev(mine))):
            np.testing.assert_allclose(gradient(x), expected, rtol=1e-12)
        along = jax.jit(lambda x, v: jax.jvp(jax.grad(mine), (x,), (v,))[1])(x, jnp.ones_like(x))
        twice = jax.jvp(jax.grad(of_all), (every,), (jnp.ones_like(every),))[1][self.rank]
        np.testing.assert_allclose(along, twice, rtol=1e-12)

    def test_derivatives_pass_through_loops(self):
        def f(x):
            body = lambda c, _: (jnp.sin(ujax.all_reduce(c, "avg")), ujax.send_recv(c, (self.rank + 1) % self.size, (self.rank - 1) % self.size).sum())
            last, rows = lax.scan(body, x, None, length=3)
            return last.sum() + (rows * jnp.arange(1.0, 4.0)).sum()

        def g(xs):
            total = 0.0
            for i in range(3):
                total += jnp.roll(xs, 1, axis=0).sum() * (i + 1)
                xs = jnp.sin(jnp.broadcast_to(xs.mean(axis=0), xs.shape))
            return total + xs.sum()

        every = jnp.stack([jnp.asarray(x) for x in self.all((3,))]) / 9
        np.testing.assert_allclose(jax.jit(jax.grad(f))(every[self.rank]), jax.grad(g)(every)[self.rank], rtol=1e-12)

    def test_derivatives_of_the_programs_own_are_taken(self):
        @jax.custom_vjp
        def mean(x):
            return ujax.all_reduce(x, "avg")

        mean.defvjp(lambda x: (mean(x), None), lambda _, w: (ujax.all_reduce(w) * 2,))
        self.same(jax.jit(jax.grad(lambda x: mean(x).sum()))(jnp.ones(2)), np.full(2, 2.0 * self.size))

    def test_operations_without_derivative_are_refused(self):
        x = jnp.ones(2 * self.size)
        self.refused(unisono.Unsupported, "all_reduce: there is no derivative of max", jax.grad(lambda x: ujax.all_reduce(x, "max").sum()), x)
        self.refused(unisono.Unsupported, "reduce_scatter: there is no derivative of product", jax.jvp, lambda x: ujax.reduce_scatter(x, "product"), (x,), (x,))
        other = jax.ShapeDtypeStruct((2,), "int32")
        nothing = lambda x: ujax.send_recv(x, None, None, other).sum().astype(float)
        self.refused(unisono.Unsupported, "float64 is sent, int32 received", jax.grad(nothing), x)
        self.same(jax.grad(lambda x: (ujax.all_reduce(lax.stop_gradient(x), "max") * x).sum())(x), np.ones(2 * self.size))


class Batches(JaxTest):
    def test_vmap_is_one_call_for_the_batch(self):
        every = self.all((5, 2 * self.size, 3))
        for name, f in Derivatives.linear(self).items():
            expected = np.stack([f(jnp.asarray(x)) for x in every[self.rank]])
            for axis in (0, 1, 2):
                x = jnp.moveaxis(jnp.asarray(every[self.rank]), 0, axis)
                text = str(jax.make_jaxpr(jax.vmap(f, in_axes=axis))(x))
                self.assertEqual(text.count("unisono["), 1, text)
                np.testing.assert_allclose(jax.jit(jax.vmap(f, in_axes=axis))(x), expected, err_msg=name)
            twice = jax.vmap(jax.vmap(f), in_axes=1, out_axes=1)(jnp.asarray(every[self.rank])[:, None])
            np.testing.assert_allclose(twice[:, 0], expected, err_msg=name)

    def test_a_call_of_what_is_the_same_for_the_batch_is_made_once(self):
        y = jax.vmap(lambda x: x * ujax.all_reduce(jnp.float64(self.rank)))(jnp.arange(3.0))
        self.same(y, np.arange(3.0) * self.size * (self.size - 1) / 2)

    def test_gradients_of_a_batch_are_right(self):
        f = jax.vmap(jax.grad(lambda x: (ujax.all_reduce(x) ** 2).sum()))
        total = sum(self.all((4, 3)))
        np.testing.assert_allclose(jax.jit(f)(self.mine((4, 3))), 2 * self.size * total)


class Refusals(JaxTest):
    def test_wrong_calls_are_refused_when_traced(self):
        traced = lambda f, *x: jax.jit(f).trace(*x)
        x = jnp.ones(3)
        for dtype in ("int4", "float8_e4m3fn", "uint2"):
            self.refused(unisono.InvalidArgument, f"all_gather: arrays of {dtype} do not travel", traced, ujax.all_gather, x.astype(dtype))
        self.refused(unisono.InvalidArgument, "jax.random.key_data", traced, ujax.broadcast, jax.random.key(0))
        self.refused(unisono.InvalidArgument, "in a group of", traced, lambda x: ujax.broadcast(x, self.size), x)
        self.refused(unisono.InvalidArgument, "src is None", traced, lambda x: ujax.broadcast(x, None), x)
        self.refused(unisono.InvalidArgument, "known when the function is traced", jax.jit(ujax.broadcast), x, 0)
        self.refused(unisono.InvalidArgument, "the group is [0]", traced, lambda x: ujax.all_reduce(x, group=[0]), x)
        self.refused(unisono.InvalidArgument, "the timeout is -1", traced, lambda x: ujax.all_reduce(x, timeout=-1), x)
        self.refused(unisono.InvalidArgument, "median", traced, lambda x: ujax.all_reduce(x, "median"), x)
        self.refused(unisono.Unsupported, "a ReduceOp or its name", traced, lambda x: ujax.all_reduce(x, np.maximum), x)
        self.refused(unisono.InvalidArgument, "cannot share evenly", traced, ujax.all_to_all, jnp.ones(()))
        if self.size > 1:
            self.refused(unisono.InvalidArgument, f"{self.size + 1} rows, which {self.size} ranks cannot share", traced, ujax.reduce_scatter, jnp.ones(self.size + 1))
        self.refused(TypeError, "", traced, lambda x: ujax.all_reduce("text"), x)

    def test_other_platforms_are_refused_when_lowered(self):
        traced = jax.jit(ujax.all_reduce).trace(jnp.ones(3))
        for platform in ("cuda", "tpu"):
            error = self.refused(unisono.Unsupported, "all_reduce: unisono.jax works on arrays of the CPU", traced.lower, lowering_platforms=(platform,))
            self.assertIn(platform, str(error))
            self.assertIn("jax.lax.psum", str(error))

    def test_ranks_that_call_different_things(self):
        if self.size == 1:
            self.skipTest("one rank agrees with itself")
        x = jnp.ones(3 + (self.rank == 1))
        for f in (jax.jit(lambda x: ujax.all_reduce(x)), lambda x: ujax.all_gather(x)):
            error = self.refused(jax.errors.JaxRuntimeError, "FAILED_PRECONDITION: unisono.Mismatch: ", f, x)
            self.assertIn("jax_test.py:", str(error))
            ours = ujax.error_of(error)
            self.assertIsInstance(ours, unisono.Mismatch)
            self.assertEqual((ours.where.file, ours.rank), (__file__, self.rank))
            if self.size > 2:
                self.assertEqual(ours.culprit, 1)
            self.same(jax.jit(ujax.all_reduce)(jnp.ones(2)), np.full(2, self.size))  # the group works on
        with self.assertRaises(unisono.Mismatch), ujax.library_errors():
            ujax.all_reduce(jnp.ones(2, "int32" if self.rank else "float32")).block_until_ready()
        with self.assertRaises(unisono.Mismatch), ujax.library_errors():
            jax.jit(lambda x: ujax.broadcast(x, self.rank % 2))(x[:3])
        self.same(ujax.all_reduce(jnp.ones(2)), np.full(2, self.size))
        self.assertIsNone(ujax.error_of(ValueError("of somebody else")))


if __name__ == "__main__":
    main()
