"""The operators torch.ops.unisono.all_reduce and its like: values, gradients, names of groups, what they refuse. Run as several ranks."""

import torch
import torch.distributed as dist

import unisono.torch  # noqa: F401
from ranks import RankTest, distinct, main

ops = torch.ops.unisono


class Operators(RankTest):
    def blocks(self, rank, width=3, dtype=torch.float32):
        """A block of two rows for each rank."""
        return distinct(rank, (2 * self.size, width), dtype)

    def block(self, tensor, rank):
        return tensor[2 * rank:2 * rank + 2]

    def test_a_tensor_is_reduced_in_place(self):
        for dtype in (torch.bfloat16, torch.float32, torch.int64):
            x = distinct(self.rank, (4, 2), dtype)
            self.assertIsNone(ops.all_reduce_(x))
            self.same(x, sum(self.every((4, 2), dtype)))
        x = distinct(self.rank, (5,))
        ops.all_reduce_(x, "max", "world")
        self.same(x, torch.stack(self.every((5,))).amax(0))

    def test_a_new_tensor_is_returned_and_the_given_one_stays(self):
        x = distinct(self.rank, (4, 2))
        self.same(ops.all_reduce(x), sum(self.every((4, 2))))
        self.same(ops.all_reduce(x, "min"), torch.stack(self.every((4, 2))).amin(0))
        self.close(ops.all_reduce(x, "avg"), sum(self.every((4, 2))) / self.size)
        self.same(ops.all_gather(x), torch.stack(self.every((4, 2))))
        self.same(ops.all_gather(x.flatten()[0]), torch.stack(self.every((4, 2)))[:, 0, 0])
        self.same(x, distinct(self.rank, (4, 2)))
        mine = self.blocks(self.rank)
        total = sum(self.blocks(r) for r in range(self.size))
        self.same(ops.reduce_scatter(mine), self.block(total, self.rank))
        self.same(ops.all_to_all(mine), torch.cat([self.block(self.blocks(r), self.rank) for r in range(self.size)]))
        self.same(mine, self.blocks(self.rank))

    def test_a_tensor_is_broadcast(self):
        for src in (0, self.size - 1):
            x = distinct(self.rank, (3, 3))
            self.assertIsNone(ops.broadcast_(x, src))
            self.same(x, distinct(src, (3, 3)))

    def test_strides_and_unknown_dtypes_are_served(self):
        x = distinct(self.rank, (4, 6)).t()
        self.same(ops.all_reduce(x), sum(self.every((4, 6))).t())
        ops.all_reduce_(x)
        self.same(x, sum(self.every((4, 6))).t())
        x = distinct(self.rank, (8,)).to(torch.float8_e4m3fn)
        self.same(ops.all_gather(x).float(), torch.stack(self.every((8,))))
        ops.broadcast_(x, 1)
        self.same(x.float(), distinct(1, (8,)))
        self.same(ops.all_gather(torch.empty(0)), torch.empty(self.size, 0))

    def test_autograd_notices_a_change_in_place(self):
        x = distinct(self.rank, (3,))
        y = (x.clone().requires_grad_() * x).sum()
        before = x._version
        ops.all_reduce_(x)
        self.assertGreater(x._version, before)
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            y.backward()

    def test_a_group_is_found_by_its_name(self):
        pair = dist.new_group([0, self.size - 1])
        if self.rank in (0, self.size - 1):
            self.same(ops.all_reduce(distinct(self.rank, (3,)), "sum", pair.group_name), distinct(0, (3,)) + distinct(self.size - 1, (3,)))
            self.assertEqual(ops.all_gather(torch.ones(2), pair.group_name).shape, (2, 2))
            name = pair.group_name
            dist.destroy_process_group(pair)
            del pair
            with self.assertRaisesRegex((ValueError, dist.DistBackendError), f'there is no group "{name}"|was destroyed'):
                ops.all_reduce(torch.ones(1), "sum", name)
        everybody = dist.group.WORLD.group_name
        self.same(ops.all_reduce(distinct(self.rank, (3,)), "sum", everybody), sum(self.every((3,))))

    def test_a_wrong_call_is_refused_by_this_rank_alone(self):
        x = torch.ones(2 * self.size + 1)
        self.refused(ValueError, 'there is no group "nobody"', ops.all_reduce_, x, "sum", "nobody")
        self.refused(ValueError, 'there is no group "nobody"', ops.all_gather, x, "nobody")
        self.refused(ValueError, "frobnicate", ops.all_reduce, x, "frobnicate")
        self.refused(ValueError, "frobnicate", ops.reduce_scatter, x, "frobnicate")
        self.refused(ValueError, f"cannot be divided among {self.size} ranks", ops.reduce_scatter, x)
        self.refused(ValueError, f"cannot be divided among {self.size} ranks", ops.all_to_all, x)
        self.refused(ValueError, "without an axis", ops.all_to_all, torch.ones(()))
        for src in (-1, self.size):
            self.refused(ValueError, f"rank {src} is not in the group of {self.size}", ops.broadcast_, x, src)
        self.refused(ValueError, "Float8_e4m3fn", ops.all_reduce, x.to(torch.float8_e4m3fn))
        self.refused(ValueError, "sparse", ops.all_reduce, torch.eye(2).to_sparse())
        self.refused(ValueError, "a stride of 0", ops.all_reduce_, torch.ones(1).expand(3))
        self.refused(RuntimeError, "", ops.all_reduce, [x])
        dist.barrier()

    def check_gradient(self, function, width):
        """Compares with differences of the sum of all ranks' losses, for one element of one rank after the other."""
        def loss(x):
            return (torch.sin(function(x)) * (self.rank + 1)).sum()

        x = (distinct(self.rank, (2 * self.size, width), torch.float64) / 10).requires_grad_()
        loss(x).backward()
        moved, step = x.detach().clone(), 1e-5
        for rank in range(self.size):
            for i in range(x.numel()):
                totals = []
                for offset in (step, -step):
                    moved.view(-1)[i] += offset * (rank == self.rank)
                    totals.append(ops.all_reduce(loss(moved)))
                    moved.view(-1)[i] -= offset * (rank == self.rank)
                if rank == self.rank:
                    self.close(x.grad.view(-1)[i], (totals[0] - totals[1]) / (2 * step), f"element {i}", rtol=1e-6, atol=1e-8)

    def test_a_gradient_is_that_of_the_losses_of_all_ranks(self):
        for function in (ops.all_reduce, lambda x: ops.all_reduce(x, "avg"), ops.all_gather, ops.reduce_scatter, lambda x: ops.reduce_scatter(x, "avg"),
                         ops.all_to_all):
            self.check_gradient(function, 2)

    def test_a_gradient_has_a_gradient(self):
        x = distinct(self.rank, (3,)).requires_grad_()
        gradient, = torch.autograd.grad((ops.all_reduce(x)**2).sum(), x, create_graph=True)
        self.same(gradient, 2 * self.size * sum(self.every((3,))))
        gradient.sum().backward()
        self.same(x.grad, torch.full((3,), 2.0 * self.size * self.size))

    def test_what_has_no_gradient_says_so(self):
        x = torch.ones(2 * self.size, requires_grad=True)
        for result in (ops.all_reduce(x, "max"), ops.reduce_scatter(x, "min")):
            self.refused(NotImplementedError, "has no gradient", result.sum().backward)
        for in_place in (ops.all_reduce_, ops.broadcast_):
            self.refused(NotImplementedError, "lose the gradient", in_place, x * 2)
            with torch.no_grad():
                in_place(x * 2)

    def test_a_tangent_is_refused(self):
        x = torch.ones(2 * self.size)
        for operator in (ops.all_reduce, ops.all_gather, ops.reduce_scatter, ops.all_to_all, ops.all_reduce_, ops.broadcast_):
            self.refused(NotImplementedError, "forward-mode differentiation", torch.func.jvp, operator, (x,), (x,))

    def refused(self, error, text, function, *arguments):
        with self.assertRaises(error) as caught:
            function(*arguments)
        self.assertIn(text, str(caught.exception))


if __name__ == "__main__":
    main()
