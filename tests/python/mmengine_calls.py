"""One script over mmengine.dist on gloo and then over unisono.mmengine, in the same ranks: mmengine_calls.py FOLDER. Each rank writes what every call gave,
alone and in the job."""

import os
import pickle
import sys
import time

import numpy as np
import torch

results = {}


def record(name, call):
    """What the call returned, or the kind of its exception."""
    try:
        results[name] = call()
    except Exception as error:
        results[name] = type(error).__name__


def changed(call, data, *args, **kwargs):
    returned = call(data, *args, **kwargs)
    return returned, data


def values(rank, dtype, shape=(3, 5)):
    """Different on every rank and in every element."""
    n = int(np.prod(shape))
    return ((torch.arange(n) * 5 + rank * 11) % 17 - 8 + rank).reshape(shape).to(dtype)


def tensors(dist, rank, size):
    record("all_reduce of an unknown op", lambda: dist.all_reduce(torch.ones(2), "median") if size > 1 else "ValueError")
    for op in ("sum", "MEAN", "product", "min", "max"):
        for dtype in (torch.float32, torch.float64, torch.int64, torch.int32):
            record(f"all_reduce {op} {dtype}", lambda: changed(dist.all_reduce, values(rank, dtype), op))
    for op in ("band", "bor", "bxor"):
        record(f"all_reduce {op}", lambda: changed(dist.all_reduce, values(rank, torch.int64), op))
    record("all_reduce 0-dim", lambda: changed(dist.all_reduce, torch.tensor(1.5 + rank)))
    record("all_gather", lambda: dist.all_gather(values(rank, torch.float32)))
    for root in range(size):
        record(f"gather to {root}", lambda: dist.gather(values(rank, torch.int64), root))
        record(f"broadcast from {root}", lambda: changed(dist.broadcast, values(rank, torch.float64), root))
        record(f"broadcast of columns from {root}", lambda: changed(dist.broadcast, values(rank, torch.float64).t(), root))
    for op in ("sum", "mean", "max"):
        data = {"b": values(rank, torch.float32), "a": values(rank + 3, torch.float32, (7,))}
        record(f"all_reduce_dict {op}", lambda: changed(dist.all_reduce_dict, data, op))
    for how in ({}, {"coalesce": False}, {"bucket_size_mb": 1}, {"op": "mean"}):
        params = [values(rank + i, torch.float32, (i + 1, 3)) for i in range(20)] + [values(rank, torch.int64)]
        record(f"all_reduce_params {how}", lambda: (dist.all_reduce_params((p for p in params), **how), params))


def waiting(dist, rank, size, folder):
    # The last rank comes when the others wait already, and says so before it does: nobody passes before.
    if rank == size - 1:
        while not all(os.path.exists(os.path.join(folder, f"waits {r}")) for r in range(size - 1)):
            time.sleep(0.001)
        time.sleep(0.05)
        open(os.path.join(folder, "comes"), "w").close()
    else:
        open(os.path.join(folder, f"waits {rank}"), "w").close()
    record("barrier", dist.barrier)
    record("passes the barrier", lambda: os.path.exists(os.path.join(folder, "comes")))


def objects(dist, rank, size, folder):
    record("all_gather_object", lambda: dist.all_gather_object({"rank": rank, "text": "é" * (rank + 1)}))
    for root in range(size):
        record(f"gather_object to {root}", lambda: dist.gather_object(["foo", rank], root))
        record(f"broadcast_object_list from {root}", lambda: changed(dist.broadcast_object_list, ["foo", rank, {1: rank}], root))
    record("broadcast_object_list of a text", lambda: dist.broadcast_object_list("foo"))
    np.random.seed(7 + rank)
    record("sync_random_seed", dist.sync_random_seed)
    part = [{"sample": i * size + rank} for i in range(4)]
    for device in ("cpu", "gpu"):
        for length in (4 * size, 4 * size - 1):
            record(f"collect_results {device} {length}", lambda: dist.collect_results(part, length, device))
        record(f"collect_results uneven {device}", lambda: dist.collect_results(part[: 4 - rank], 4 * size - size * (size - 1) // 2, device))
    shared = os.path.join(folder, "results")
    record("collect_results in a folder", lambda: dist.collect_results(part, 4 * size, "cpu", shared))
    record("collect_results_cpu", lambda: dist.collect_results_cpu(part, 3))
    record("collect_results_gpu", lambda: dist.collect_results_gpu(part, 3))
    record("collect_results of another device", lambda: dist.collect_results(part, 4, "tpu"))
    record("collect_results gpu in a folder", lambda: dist.collect_results(part, 4, "gpu", shared))


def ranks(dist, rank, size):
    for name in ("is_distributed", "get_world_size", "get_rank", "get_dist_info", "is_main_process", "get_comm_device", "infer_launcher"):
        record(name, getattr(dist, name))
    record("master_only", dist.master_only(lambda: f"only {rank}"))
    record("get_local_size", dist.get_local_size)
    record("get_local_rank", dist.get_local_rank)
    record("local group", lambda: dist.get_world_size(dist.get_local_group()))
    record("default group", lambda: dist.get_world_size(dist.get_default_group()))


def devices(dist):
    t, cpu = torch.tensor([1.0, 2.0]), torch.device("cpu")
    for name, data in {"tensor": t, "list": [t, t], "dict": {"a": t, "b": [t]}, "tuple": (t, (t,)), "empty list": [], "empty dict": {}, "number": 123,
                       "text": "123", "array": np.ones(2), "list of numbers": [1, 2]}.items():
        record(f"get_data_device {name}", lambda: dist.get_data_device(data))
        record(f"cast_data_device {name}", lambda: dist.cast_data_device(data, cpu))
    record("mixed devices", lambda: dist.get_data_device([t, torch.ones(1, device="meta")]))
    record("cast with out", lambda: (dist.cast_data_device({"a": [t]}, cpu, out := {"a": [torch.zeros(2)]}), out))
    for name, out in {"list": [t], "set": {1}, "shorter": {}}.items():
        record(f"cast with out {name}", lambda: dist.cast_data_device({"a": t}, cpu, out=out))
    record("the same object", lambda: dist.cast_data_device(t, cpu) is t)


def calls(dist, folder):
    results.clear()
    rank, size = dist.get_dist_info()
    os.makedirs(folder, exist_ok=True)
    os.chdir(folder)
    ranks(dist, rank, size)
    waiting(dist, rank, size, folder)
    tensors(dist, rank, size)
    objects(dist, rank, size, folder)
    devices(dist)
    return dict(results)


def join(which, dist):
    if which == "ours":
        dist.init_dist(dist.infer_launcher(), "gloo", timeout=60)
    else:
        torch.distributed.init_process_group("gloo")
        dist.init_local_group(0, int(os.environ["LOCAL_WORLD_SIZE"]))


def main():
    folder = sys.argv[1]
    torch.set_num_threads(1)
    import mmengine.dist as original

    import unisono.mmengine as ours

    for which, dist in (("original", original), ("ours", ours)):
        told = {"alone": calls(dist, os.path.join(folder, which, f"alone {os.environ['RANK']}"))}
        join(which, dist)
        told["job"] = calls(dist, os.path.join(folder, which, "job"))
        with open(os.path.join(folder, f"{which}-{dist.get_rank()}.pickle"), "wb") as file:
            pickle.dump(told, file)
        torch.distributed.destroy_process_group()


main()
