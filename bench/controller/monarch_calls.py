"""Calls of endpoints of an actor of Monarch (torchmonarch), for scripts/bench/controller."""

import importlib.metadata

import measure
from monarch.actor import Actor, endpoint, this_host


class Worker(Actor):
    @endpoint
    def nothing(self):
        pass

    @endpoint
    def last_of(self, x):
        return float(x[-1])


if __name__ == "__main__":
    worker = this_host().spawn_procs(per_host={"procs": 1}).spawn("worker", Worker)

    def flight(n):
        for future in [worker.nothing.call_one() for _ in range(n)]:
            future.get()

    measure.measure("torchmonarch", importlib.metadata.version("torchmonarch"), lambda: worker.nothing.call_one().get(), flight,
                    lambda x: worker.last_of.call_one(x).get())
