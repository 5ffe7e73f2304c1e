"""Calls of unisono from Python, for scripts/bench/controller."""

import measure
import unisono

if __name__ == "__main__":
    with unisono.Controller(workers=1) as workers:
        worker = workers[0]

        def flight(n):
            for future in [worker.call(measure.nothing) for _ in range(n)]:
                future.result()

        measure.measure("unisono", unisono.__version__, lambda: worker.call(measure.nothing).result(), flight,
                        lambda x: worker.call(measure.last_of, x).result())
