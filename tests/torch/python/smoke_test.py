"""The least: a group, a reduction, a broadcast, DDP."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from ranks import RankTest, distinct, main


class Smoke(RankTest):
    def test_all_reduce(self):
        x = distinct(self.rank, (3, 5))
        dist.all_reduce(x)
        self.same(x, sum(distinct(r, (3, 5)) for r in range(self.size)))

    def test_broadcast(self):
        x = distinct(self.rank, (7,))
        dist.broadcast(x, self.size - 1)
        self.same(x, distinct(self.size - 1, (7,)))

    def test_ddp(self):
        torch.manual_seed(1)
        one = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
        many = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3)))
        many.module.load_state_dict(one.state_dict())
        batch = torch.randn(4 * self.size, 6)
        one(batch).square().mean().backward()
        many(batch[self.rank :: self.size]).square().mean().backward()
        for p, q in zip(one.parameters(), many.parameters()):
            self.close(q.grad, p.grad)


if __name__ == "__main__":
    main()
