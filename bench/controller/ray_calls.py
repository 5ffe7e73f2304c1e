"""Calls of methods of an actor of Ray, for scripts/bench/controller."""

import os

import measure
import ray


@ray.remote
class Worker:
    def nothing(self):
        pass

    def last_of(self, x):
        return float(x[-1])


if __name__ == "__main__":
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error", object_store_memory=1 << 30,
             runtime_env={"env_vars": {"PYTHONPATH": os.path.dirname(os.path.abspath(__file__))}})
    worker = Worker.remote()
    measure.measure("ray", ray.__version__, lambda: ray.get(worker.nothing.remote()), lambda n: ray.get([worker.nothing.remote() for _ in range(n)]),
                    lambda x: ray.get(worker.last_of.remote(x)))
    ray.shutdown()
