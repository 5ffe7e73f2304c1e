"""PyTorch's own tests of torch.distributed over unisono: whatever passes on gloo passes here, or is in exceptions.txt with the reason.

    run_pytorch_suite.py [-k PART]... [--quick] [--world-sizes 3,4,8] [--jobs 2] [--save FILE] [--verbose]

Each test runs over gloo, over unisono, and over unisono that stands in for gloo, for the tests that are written for gloo alone. What gloo skips in a
world of one size is tried in the next. --quick: the tests of quick.txt, over unisono only. Fails when a test that passes on gloo fails on unisono (or,
as the stand-in, does not pass) and is no exception, and when an exception passes.
"""

import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
KINDS = ("gloo", "unisono", "stand-in")


def listed(name):
    """Lines "test: reason" (or "test") of a file beside this one."""
    lines = (HERE / name).read_text().splitlines()
    pairs = (line.partition(":") for line in lines if line.strip() and not line.startswith("#"))
    return {test.strip(): reason.strip() for test, _, reason in pairs}


def work(kind, world_size, tests):
    """Results by test, of one worker after the other: a test that takes its worker along has failed."""
    results = {}
    left = list(tests)
    while left:
        with tempfile.TemporaryFile("w+") as noise:
            worker = subprocess.Popen([sys.executable, HERE / "pytorch_suite_worker.py", kind, str(world_size), *left],
                                      stdout=subprocess.PIPE, stderr=noise, text=True)
            for line in worker.stdout:
                if not line.startswith('{"test"'):
                    continue
                result = json.loads(line)
                results[result["test"]] = result
            code = worker.wait()
            done = [test for test in left if test in results]
            left = left[len(done):]
            if left:
                noise.seek(0)
                why = f"the worker ended with {code}\n{noise.read()[-4000:]}"
                results[left[0]] = {"test": left[0], "how": "failed", "why": why, "seconds": 0}
                left = left[1:]
    return results


def run(kind, world_size, tests, jobs):
    """The tests in portions, a worker each."""
    portions = [tests[i::jobs * 2] for i in range(jobs * 2)]
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        results = {}
        for part in pool.map(lambda portion: work(kind, world_size, portion), portions):
            results.update(part)
    return results


def judge(test, of_gloo, of_unisono, of_stand_in, exceptions):
    """What is wrong, if anything is."""
    good = of_gloo["how"] != "passed" or (of_unisono["how"] != "failed" and of_stand_in["how"] == "passed")
    if test in exceptions:
        return "" if not good or of_gloo["how"] != "passed" else "is listed as an exception, and passes"
    if good:
        return ""
    return f"passes on gloo; unisono: {of_unisono['how']}, in its place: {of_stand_in['how']}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-k", action="append", default=[])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--world-sizes", default="3,4,8")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--save")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()

    names = subprocess.run([sys.executable, HERE / "pytorch_suite_worker.py", "gloo", "2"], capture_output=True, text=True, check=True)
    tests = [name for name in names.stdout.split() if name.startswith("test_")]
    if options.k:
        tests = [test for test in tests if any(part in test for part in options.k)]
    if options.quick:
        tests = [test for test in tests if test in listed("quick.txt")]
    if not tests:
        sys.exit("no such tests")

    exceptions = listed("exceptions.txt")
    everything, wrong = [], []
    for world_size in map(int, options.world_sizes.split(",")):
        skipped = []
        kinds = KINDS[1:] if options.quick else KINDS
        by_kind = {kind: run(kind, world_size, tests, options.jobs) for kind in kinds}
        for test in tests:
            of = {kind: by_kind[kind][test] for kind in kinds}
            of.setdefault("gloo", {"how": "passed", "why": "", "seconds": 0})
            everything.append({"world_size": world_size, **{kind: of[kind] for kind in KINDS}})
            if of["gloo"]["how"] == "skipped":
                skipped.append(test)
            what = judge(test, of["gloo"], of["unisono"], of["stand-in"], exceptions)
            if what:
                wrong.append(test)
                print(f"\n{test} ({world_size} ranks): {what}")
                for kind in kinds[-2:]:
                    if of[kind]["how"] != "passed":
                        print("\n".join(f"    {kind}: {line}" for line in of[kind]["why"].strip().splitlines()[-25 if options.verbose else -6:]))
        counts = {kind: Counter(by_kind[kind][test]["how"] for test in tests) for kind in kinds}
        print(f"\n{len(tests)} tests, {world_size} ranks:")
        for kind in kinds:
            took = sum(result["seconds"] for result in by_kind[kind].values())
            passed, failed, skipped_here = (counts[kind][how] for how in ("passed", "failed", "skipped"))
            print(f"  {kind:9} {passed:4} passed {failed:4} failed {skipped_here:4} skipped {took:7.0f} s", flush=True)
        tests = skipped
        if not tests:
            break
    if options.save:
        Path(options.save).write_text(json.dumps(everything, indent=1))
    if wrong:
        sys.exit(f"\n{len(wrong)} tests pass on gloo and not on unisono: " + ", ".join(wrong))
    print("\nwhatever passes on gloo passes on unisono" + (f", but for {len(exceptions)} listed exceptions" if exceptions else ""))


if __name__ == "__main__":
    main()
