"""One program over ignite.distributed and over unisono.ignite, one after the other in the same ranks: `ignite_sides.py FOLDER [MODE]`. Each rank writes what
it got to FOLDER/<module>/<rank>.json: alone, before there is a job, and in the job. MODE spawn or parallel: of the processes that these start."""

import importlib
import json
import os
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
from torch.utils.data import IterableDataset, SequentialSampler, TensorDataset, WeightedRandomSampler
from torch.utils.data.distributed import DistributedSampler


def plain(value):
    """As JSON, with the types that JSON does not tell apart."""
    if isinstance(value, torch.Tensor):
        return ["tensor", str(value.dtype), list(value.shape), value.tolist()]
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    return [type(value).__name__, str(value) if isinstance(value, Path) else value]


def error_of(call):
    try:
        call()
    except Exception as error:
        return type(error).__name__
    return None


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(4))


class Sides:
    def __init__(self, idist, folder):
        self.idist, self.folder, self.results = idist, folder, {}
        self.rank, self.size = idist.get_rank(), idist.get_world_size()

    def put(self, name, value):
        self.results[name] = plain(value)

    def getters(self):
        idist = self.idist
        for name in ("backend", "get_world_size", "get_rank", "get_local_rank", "get_nproc_per_node", "get_nnodes", "get_node_rank", "model_name", "hostname"):
            self.put(name, getattr(idist, name)())
        self.put("device", str(idist.device()))

    def reductions(self):
        idist, r = self.idist, self.rank
        for op in ("SUM", "PRODUCT", "MIN", "MAX"):
            for dtype in (torch.float32, torch.float64, torch.int64, torch.uint8):
                x = (torch.arange(6) * (r + 2) + r + 1).to(dtype).reshape(2, 3)
                y = idist.all_reduce(x, op)
                self.put(f"all_reduce {op} {dtype}", [y, x, y is x])
            self.put(f"all_reduce {op} 0-dim", idist.all_reduce(torch.tensor(2 * r + 1), op))
            self.put(f"all_reduce {op} int", idist.all_reduce(3 + r, op))
            self.put(f"all_reduce {op} float", idist.all_reduce(0.1 + r, op))
        for op in ("AND", "OR"):
            self.put(f"all_reduce {op}", idist.all_reduce(torch.tensor([12 + r, 5, r]), op))
        if self.size > 1:
            self.put("refused", [error_of(lambda: idist.all_reduce(x, "ABC")), error_of(lambda: idist.all_reduce("text"))])
            self.put("refused group", error_of(lambda: idist.all_reduce(x, group="abc")))

    def gathers(self):
        idist, r = self.idist, self.rank
        x = torch.arange(6).reshape(2, 3) + 10 * r
        for dtype in (torch.int64, torch.float32, torch.int8):
            self.put(f"all_gather {dtype}", idist.all_gather(x.to(dtype)))
        self.put("all_gather number", [idist.all_gather(10 + r), idist.all_gather(0.5 + r)])
        self.put("all_gather text", [idist.all_gather("abc" if r == 0 else "test-test"), idist.all_gather("xyz" * 30_000)])
        self.put("all_gather object", idist.all_gather({"rank": r, "x": [1.5, {"t": torch.ones(2) * r}]}))
        if self.size > 1:
            self.put("all_gather 0-dim", idist.all_gather(torch.tensor(r + 1.5)))
            shapes = [(rank + 1, rank + 2) for rank in range(self.size)]
            mine = torch.arange((r + 1.0) * (r + 2)).reshape(shapes[r]) + r
            self.put("with shapes", idist.all_gather_tensors_with_shapes(mine, shapes))

    def broadcasts(self):
        idist, r = self.idist, self.rank
        for src in range(self.size):
            x = torch.arange(4.0) + 10 * r
            y = idist.broadcast(x, src=src)
            self.put(f"broadcast {src}", [y, x, idist.broadcast(torch.tensor(7 + r), src=src)])
            self.put(f"broadcast text {src}", [idist.broadcast(f"text of {r}", src=src), idist.broadcast("long" * 5000 + str(r), src=src)])
            self.put(f"broadcast float {src}", idist.broadcast(0.5 + r, src=src))
            for name, value in {"tensor": torch.ones(2, 3) * (r + 1), "text": f"from {r}", "float": 1.5 + r, "path": Path(f"/a/{r}")}.items():
                for other in (None, "abc", 1.2):
                    given = value if r == src else other
                    self.put(f"broadcast {src} safe {name} {other}", idist.broadcast(given, src=src, safe_mode=True))
        if self.size > 1:
            self.put("broadcast None", error_of(lambda: idist.broadcast(None, src=r)))
        self.put("barrier", idist.barrier())

    def waiting(self):
        # The last rank comes when the others wait already, and says so before it does: nobody passes before.
        idist, last = self.idist, self.size - 1
        if self.rank == last:
            while not all((self.folder / f"waits {rank}").exists() for rank in range(last)):
                time.sleep(0.001)
            time.sleep(0.05)
            (self.folder / "comes").touch()
        else:
            (self.folder / f"waits {self.rank}").touch()
        idist.barrier()
        self.put("passes the barrier", (self.folder / "comes").exists())

    def groups(self):
        idist = self.idist
        ranks = [1] if self.size > 1 else [0]
        everyone = idist.new_group(list(range(self.size)))
        self.put("group of all", [idist.all_reduce(torch.tensor(self.rank + 1), group=everyone), idist.all_gather(self.rank, group=everyone)])
        group = idist.new_group(ranks)
        if self.rank in ranks:
            self.put("group", [idist.all_reduce(torch.tensor(5), group=group), idist.all_gather(torch.tensor([5]), group=group)])
        self.put("group as list", idist.all_gather(self.rank, group=list(range(self.size))))
        self.put("new_group refused", [error_of(lambda: idist.new_group(["a"])), error_of(lambda: idist.new_group(1))])

    def scopes(self):
        idist = self.idist
        last = self.size - 1
        for with_barrier in (False, True):
            self.put(f"one_rank_only {with_barrier}", idist.one_rank_only(rank=last, with_barrier=with_barrier)(lambda a, b: a + b)(1, b=self.rank))
        path = self.folder / "first"
        for local in (False, True):
            with idist.one_rank_first(rank=last, local=local):
                self.put(f"one_rank_first {local}", path.exists() == (self.rank != last or local))
                path.touch()
            idist.barrier()
        self.put("one_rank_first 100", error_of(lambda: idist.one_rank_first(rank=100).__enter__()))

    def loaders(self):
        idist = self.idist
        data = TensorDataset(torch.arange(103))
        for name, how in {
            "plain": {"batch_size": 10, "shuffle": False},
            "shuffled": {"batch_size": 8, "shuffle": True, "num_workers": 3, "drop_last": True},
            "small": {"batch_size": 1, "shuffle": False},
            "no size": {"shuffle": False},
            "distributed": {"batch_size": 6, "sampler": DistributedSampler(data, self.size, self.rank, shuffle=False)},
            "sequential": {"batch_size": 6, "sampler": SequentialSampler(data)},
            "weighted": {"batch_size": 20, "sampler": WeightedRandomSampler(torch.ones(103), 103)},
        }.items():
            torch.manual_seed(3)
            loader = idist.auto_dataloader(data, **how)
            told = [loader.batch_size, loader.num_workers, loader.pin_memory, type(loader.sampler).__name__]
            indices = list(loader.sampler) if self.size > 1 or name != "shuffled" else []
            self.put(f"loader {name}", [told, [int(i) for i in indices]])
        loader = idist.auto_dataloader(Stream(), batch_size=4)
        self.put("loader stream", [loader.batch_size, [b.tolist() for b in loader]])

    def samplers(self):
        wrapped = WeightedRandomSampler(torch.arange(1.0, 51.0), 101)
        for epoch in (0, 5):
            sampler = self.idist.DistributedProxySampler(wrapped, num_replicas=4, rank=3)
            sampler.set_epoch(epoch)
            self.put(f"proxy sampler {epoch}", [int(i) for i in sampler])
            self.put("proxy length", len(sampler))
        proxy = self.idist.DistributedProxySampler
        self.put("proxy refused", [error_of(lambda: proxy(None, 2, 0)), error_of(lambda: proxy(sampler, 2, 0))])

    def training(self):
        idist = self.idist
        torch.manual_seed(10 + self.rank)
        layers = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
        model = idist.auto_model(layers, **({"bucket_cap_mb": 1} if self.size > 1 else {}))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        same = idist.auto_optim(optimizer)
        for step in range(3):
            x = torch.arange(8.0).reshape(2, 4) * (self.rank + 1) + step
            same.zero_grad()
            model(x).square().mean().backward()
            same.step()
        self.put("training", [same is optimizer, type(model).__name__, [p.detach() for p in model.parameters()]])
        batch_norm = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
        if self.size == 1:  # the original has it for GPUs only
            self.put("sync_bn", error_of(lambda: idist.auto_model(batch_norm, sync_bn=True)))

    def run(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        for part in (self.getters, self.reductions, self.gathers, self.broadcasts, self.waiting, self.groups, self.scopes, self.loaders, self.samplers,
                     self.training):
            part()
        return self.results


def in_process(local_rank, module, folder, factor=1):
    torch.set_num_threads(1)
    idist = importlib.import_module(module)
    told = [idist.get_rank(), idist.get_local_rank(), idist.get_world_size(), idist.backend(), local_rank, idist.all_reduce(factor * (idist.get_rank() + 1))]
    told += [idist.get_nnodes(), idist.get_nproc_per_node(), sorted(idist.all_gather(idist.get_rank()))]
    with open(f"{folder}/{idist.get_rank()}.json", "a") as file:
        file.write(json.dumps(told) + "\n")


def alone_and_in_a_job(module, folder):
    idist = importlib.import_module(module)
    alone = Sides(idist, folder / f"alone {os.environ.get('RANK')}").run()
    idist.initialize("gloo", timeout=timedelta(seconds=120))
    in_a_job, rank = Sides(idist, folder / "job").run(), idist.get_rank()
    idist.finalize()
    assert idist.model_name() == "serial" and idist.get_world_size() == 1
    (folder / f"{rank}.json").write_text(json.dumps({"alone": alone, "job": in_a_job}))


def main():
    torch.set_num_threads(1)
    folder, mode = Path(sys.argv[1]), (*sys.argv[2:], "")[0]
    for module in ("ignite.distributed", "unisono.ignite"):
        idist, place = importlib.import_module(module), folder / module
        place.mkdir(exist_ok=True)
        if mode == "spawn":
            idist.spawn("gloo", in_process, args=(module, str(place)), kwargs_dict={"factor": 3}, nproc_per_node=2)
            with idist.Parallel(backend="gloo", nproc_per_node=2, start_method="fork") as parallel:
                parallel.run(in_process, module, str(place), factor=5)
        elif mode == "parallel":
            with idist.Parallel(backend="gloo") as parallel:
                parallel.run(in_process, module, str(place), factor=7)
        else:
            alone_and_in_a_job(module, place)


if __name__ == "__main__":
    main()
