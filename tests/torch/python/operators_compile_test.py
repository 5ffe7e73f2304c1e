"""torch.compile and the operators torch.ops.unisono: no graph breaks, the same values and gradients, shapes that are symbols. Run as several ranks."""

import logging

import torch
from torch.library import opcheck

import unisono.torch  # noqa: F401
from ranks import RankTest, distinct, main

ops = torch.ops.unisono


class Checked(RankTest):
    def test_the_operators_are_as_a_compiler_expects(self):
        blocks = 2 * self.size
        for requires_grad in (False, True):
            x = distinct(self.rank, (blocks, 3)).requires_grad_(requires_grad)
            opcheck(ops.all_reduce.default, (x, "sum", ""))
            opcheck(ops.all_gather.default, (x, ""))
            opcheck(ops.reduce_scatter.default, (x, "avg", ""))
            opcheck(ops.all_to_all.default, (x, ""))
        x = distinct(self.rank, (blocks, 3))
        opcheck(ops.all_reduce_.default, (x, "sum", ""))
        opcheck(ops.broadcast_.default, (x, self.size - 1, ""))

    def test_a_wrong_call_is_refused_while_it_is_compiled(self):
        logging.disable(logging.CRITICAL)
        self.addCleanup(logging.disable, logging.NOTSET)
        for wrong, text in ((lambda x: ops.all_reduce(x, "frobnicate"), "frobnicate"), (lambda x: ops.all_reduce_(x, "frobnicate"), "frobnicate"),
                            (lambda x: ops.all_gather(x, "nobody"), "nobody"), (lambda x: ops.reduce_scatter(x), "cannot be divided"),
                            (lambda x: ops.all_to_all(x), "cannot be divided"), (lambda x: ops.broadcast_(x, 99), "99")):
            torch._dynamo.reset()
            with self.assertRaisesRegex(torch._dynamo.exc.TorchRuntimeError, f"ValueError.*{text}"):
                torch.compile(wrong, fullgraph=True, backend="aot_eager")(torch.ones(2 * self.size + 1))

    def test_a_change_in_place_that_loses_a_gradient_is_refused_while_it_is_compiled(self):
        logging.disable(logging.CRITICAL)
        self.addCleanup(logging.disable, logging.NOTSET)

        for in_place in (ops.all_reduce_, ops.broadcast_):
            def change(x):
                y = x * 2
                in_place(y)
                return y.sum()

            torch._dynamo.reset()
            with self.assertRaisesRegex(torch._dynamo.exc.Unsupported, "NotImplementedError.*lose the gradient"):
                torch.compile(change, fullgraph=True, backend="aot_eager")(torch.ones(3, requires_grad=True))


class Compiled(RankTest):
    backend = "aot_eager"

    def setUp(self):
        super().setUp()
        torch._dynamo.reset()

    def compiled(self, function):
        return torch.compile(function, fullgraph=True, backend=self.backend)

    def test_a_step_is_compiled_without_a_graph_break(self):
        def step(x, w):
            y = torch.ops.unisono.all_reduce(torch.tanh(x @ w))
            y = y + ops.all_gather(x).sum(0)
            z = ops.all_to_all(torch.cat([y] * self.size))
            return ops.reduce_scatter(z * 2, "avg").sum()

        w, compiled = distinct(7, (3, 3)), self.compiled(step)
        for rows in (2, 4, 5):  # from the second on with a symbol for the number of rows
            eager, again = (distinct(self.rank, (rows, 3)).requires_grad_() for _ in range(2))
            expected, result = step(eager, w), compiled(again, w)
            self.close(result, expected)
            expected.backward()
            result.backward()
            self.close(again.grad, eager.grad)

    def test_a_change_in_place_is_compiled(self):
        def change(x):
            y = x * 2
            ops.all_reduce_(y)
            ops.broadcast_(x, 1)
            return y + x

        x = distinct(self.rank, (4,))
        result = self.compiled(change)(x)
        self.same(x, distinct(1, (4,)))
        self.same(result, 2 * sum(self.every((4,))) + distinct(1, (4,)))


if __name__ == "__main__":
    main()
