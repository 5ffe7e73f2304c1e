"""The part that the drivers of scripts/bench/controller share: it measures the same three things of each library, in the same way.

A driver is given the seconds for each, and prints a line of JSON.
"""

import json
import statistics
import sys
import time

import numpy as np

IN_FLIGHT = 1000
LARGE = 16 << 20


def nothing():
    pass


def last_of(x):
    return float(x[-1])


def timed(f, seconds, least=5):
    """Seconds of each call of f, for so long, after a tenth of that to warm up."""
    end = time.perf_counter() + seconds / 10
    while time.perf_counter() < end:
        f()
    times, end = [], time.perf_counter() + seconds
    while len(times) < least or time.perf_counter() < end:
        begin = time.perf_counter()
        f()
        times.append(time.perf_counter() - begin)
    return times


def measure(library, version, call, flight, send, make=lambda: np.ones(LARGE // 8)):
    """call(): an empty call there and back. flight(n): n of them, all under way before the first result is asked for. send(x): last_of(x) there."""
    seconds = float(sys.argv[1])
    x, copy = make(), make()
    number = 0.0

    def large():
        nonlocal number
        number += 1
        x[-1] = number
        answer = send(x)
        assert answer == number, f"{library}: {answer} has come back, not {number}"

    empty = timed(call, seconds)
    flights = timed(lambda: flight(IN_FLIGHT), seconds)
    larges = timed(large, seconds)

    def memcpy():
        copy[:] = x

    copies = timed(memcpy, seconds / 4)
    print(json.dumps({
        "library": library, "version": version, "empty_us": statistics.median(empty) * 1e6,
        "calls_per_s": IN_FLIGHT / statistics.median(flights), "large_gb_s": LARGE / statistics.median(larges) / 1e9,
        "memcpy_gb_s": LARGE / statistics.median(copies) / 1e9,
    }), flush=True)
