"""What the tests call on workers: functions and classes of a module, as a program has them."""

import asyncio
import os
import signal
import threading
import time

import numpy as np

import unisono


def place():
    return unisono.rank(), unisono.world_size(), unisono.worker_number(), os.getpid()


def add(a, b=0, *, c=0):
    return a + b + c


def total(x):
    return unisono.all_reduce(x * (unisono.rank() + 1))


def receive(n):
    x = np.empty(n)
    unisono.broadcast(x, 0, unisono.everyone())
    return float(x.sum()) + unisono.everyone().rank()


def kind_of(x, y=None):
    return type(x), getattr(x, "flags", None) and x.flags.writeable, x


def scale(x):
    x *= 2
    return x


def doubled(x):
    return x.size * 2, np.concatenate([x, x])


def fail(text, x=None):
    raise KeyError(text)


class Unreadable(Exception):
    def __init__(self, a, b):
        super().__init__(f"{a} and {b}")


def fail_unreadable():
    raise Unreadable(1, 2)


def leave():
    raise SystemExit(3)


def generator():
    return (i for i in range(3))


def huge():
    return np.zeros(200 << 20, dtype=np.uint8)


def wait_for_file(path):
    while not os.path.exists(path):
        time.sleep(0.001)
    return os.getpid()


def note(path, text):
    with open(path, "a") as file:
        file.write(text)


def hang(path):
    note(path, "begun ")
    time.sleep(100)


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def alarm():
    heard = threading.Event()
    signal.signal(signal.SIGALRM, lambda *_: heard.set())
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    end = time.monotonic() + 10
    while not heard.is_set() and time.monotonic() < end:
        pass
    return heard.is_set() and threading.current_thread() is threading.main_thread()


def interrupt_itself():
    os.kill(os.getpid(), signal.SIGINT)
    return unisono.rank()


@unisono.remote
def registered(x, factor=2):
    return {"x": x, "times": [factor, None, True], "name": ("é", b"raw")}


def unregistered():
    return 1


@unisono.actor
class Counter:
    def __init__(self, start):
        if start < 0:
            raise ValueError(f"there is no counter of {start}")
        self.value = start
        self.seen = []

    def add(self, n):
        self.value += n
        self.seen.append(n)
        return self.value

    def order(self):
        return self.seen

    def mean(self):
        return unisono.all_reduce(self.value) / unisono.world_size()

    def array(self):
        return np.full(3, float(self.value))

    def fail(self):
        raise LookupError(f"at {self.value}")


class Tracked:
    """Says when it goes."""

    def __init__(self, path):
        self.path = path

    def __del__(self):
        note(self.path, "gone")


async def squares(workers, n):
    futures = [workers[i % len(workers)].call(add, i * i) for i in range(n)]
    return await asyncio.gather(*futures), await workers.call(place), await workers[0].call(add, 5)
