"""A small program with all its types, for type checkers in strict mode (types_test.py) and to be run."""

from __future__ import annotations

import datetime

import numpy as np
import numpy.typing as npt

import unisono

Array = npt.NDArray[np.float64]


def moments(rows: Array, group: unisono.ProcessGroup | None = None) -> tuple[float, float]:
    sums = np.array([float(rows.size), float(rows.sum()), float(np.square(rows).sum())])
    sums = unisono.all_reduce(sums, unisono.ReduceOp.sum, group, timeout=datetime.timedelta(seconds=30))
    n, total, squares = (float(each) for each in sums)
    return total / n, squares / n - (total / n) ** 2


def exchange(x: Array, rank: int, size: int) -> list[int]:
    work: unisono.Work = unisono.all_reduce(x, "max", async_op=True)
    work.wait()
    same: Array = unisono.broadcast(x, unisono.GlobalRank(0), async_op=False)
    if size > 1:
        works: list[unisono.Work] = unisono.batch([unisono.P2POp.send(same, (rank + 1) % size), unisono.P2POp.recv(x, (rank - 1) % size)])
        unisono.wait_all(works)
    return [int(each) for each in unisono.all_gather_object(rank)]


@unisono.one_rank_only(with_barrier=True)
def report(text: str) -> int:
    return len(text)


def work(local_rank: int, scale: int) -> int:
    with unisono.OneRankFirst(local=True) as scope:
        first: bool = scope.is_first
    return unisono.all_reduce(scale * local_rank) + (0 if first else 0)


def main() -> None:
    with unisono.Context("auto", timeout=60) as context:
        mean, variance = moments(np.arange(4.0) + unisono.rank())
        ranks = exchange(np.ones(3), unisono.rank(), unisono.world_size())
        written: int | None = report(f"{mean} {variance} {ranks}")
        last: unisono.CallRecord = context.record()[-1]
        print(written, last.operation)
    results: list[int] = unisono.spawn(work, 10, nproc_per_node=2)
    squares: list[int] = unisono.run_threads(2, lambda rank: int(rank) ** 2)
    print(results, squares)
    try:
        unisono.spawn(work, "ten", nproc_per_node=1)
    except unisono.LaunchFailed as error:
        culprit: int | None = error.culprit
        print(culprit, error.ends[0].exit_code, unisono.Timeout.missing)


if __name__ == "__main__":
    main()
