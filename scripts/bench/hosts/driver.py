"""The drivers of `unisono bench`, started on hosts that are network namespaces: their plan, their orders and their answers."""

import json
import os
import pathlib
import select
import statistics
import subprocess
import sys
import tempfile

ROOT = str(pathlib.Path(__file__).resolve().parents[3])
FIFOS = ("control", "events")  # orders to rank 0, and its answers
SKIPPED = 77  # the code of with_hosts where a system lets no hosts be made


def name():
    return os.path.basename(sys.argv[0])


def cannot(why):
    """Ends the script where this system cannot do what it takes."""
    print(f"{name()}: {why}", file=sys.stderr)
    sys.exit(SKIPPED)


def check_tools(*tools):
    if os.geteuid() != 0:
        cannot("it takes root to make network namespaces and shape their links")
    for tool in tools:
        if subprocess.run(["sh", "-c", f"command -v {tool}"], stdout=subprocess.DEVNULL).returncode != 0:
            cannot(f"there is no command {tool} (scripts/get/dependencies installs it)")


def check_programs(*paths):
    for path in paths:
        if not os.access(path, os.X_OK):
            sys.exit(f"{name()}: there is no {path}; build it, or name the folder with --build")


def write_plan(folder, **changes):
    """Writes a plan (bench/harness/plan.h) and what it names into the folder. Returns the plan, and the path of its file."""
    plan = {"operations": [], "sizes": [], "dtype": "f32", "data": 0, "candidates": ["unisono"], "backend": "auto", "ranks": 2, "hosts": 1,
            "in_place": False, "shared_buffers": False, "bind": False, "seed": 1, "block_us": 3000, "timeout_ms": 120000, "folder": folder,
            "arena": f"{folder}/arena"}
    plan.update(changes)
    with open(plan["arena"], "wb") as arena:
        arena.truncate(64 << 20)
    for fifo in FIFOS:
        os.mkfifo(f"{folder}/{fifo}")
    with open(f"{folder}/plan.json", "w", encoding="utf-8") as file:
        json.dump(plan, file)
    return plan, f"{folder}/plan.json"


def carry_out(words_of, rounds, variables, **changes):
    """Starts `words_of(path of the plan)` with these variables, and measures. Returns for each candidate, operation and number of bytes the medians of
    the rounds in microseconds."""
    with tempfile.TemporaryDirectory() as folder:
        plan, path = write_plan(folder, **changes)
        control, events = (os.open(f"{plan['folder']}/{fifo}", os.O_RDWR) for fifo in FIFOS)
        with open(f"{folder}/log", "w+", encoding="utf-8") as log:
            ranks = subprocess.Popen(words_of(path), stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=dict(os.environ, **variables))
            try:
                with os.fdopen(events, "r") as answers:
                    samples = ask(control, answers, ranks, log, rounds)
                    ranks.wait(60)
            finally:
                os.close(control)
                if ranks.poll() is None:
                    ranks.terminate()
                    ranks.wait(60)
    return samples


def ask(control, answers, ranks, log, rounds):
    answer(answers, ranks, log)  # all have met
    samples = {}
    for number in range(rounds):
        os.write(control, f"{number}\n".encode())
        for block in answer(answers, ranks, log)["blocks"]:
            samples.setdefault((block["impl"], block["op"], block["bytes"]), []).append(statistics.median(block["samples"]) / 1000)
    os.write(control, b"-1\n")
    return samples


def answer(answers, ranks, log):
    while not select.select([answers], [], [], 1)[0]:
        if ranks.poll() is not None:
            log.seek(0)
            words = f"the ranks have ended with code {ranks.returncode}\n{log.read()}"
            if ranks.returncode == SKIPPED:
                cannot(words)
            sys.exit(f"{name()}: {words}")
    event = json.loads(answers.readline())
    if "wrong" in event:
        sys.exit(f"{name()}: {event['wrong']}")
    return event
