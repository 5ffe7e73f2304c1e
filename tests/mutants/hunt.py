"""Runs the programs: once without a mutation, to see which test reaches which, and then for each mutation those that can tell it."""

import concurrent.futures
import ctypes
import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

SEEN_BYTES = 1 << 16
MOST_MEMORY = 4 << 30
PR_SET_CHILD_SUBREAPER = 36
BATCHES = [0.3, 1.5, 6.0]  # seconds of tests between two looks at whether one was red; the last batch is the rest


def processes():
    """Parent and resident bytes of every process."""
    table = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", encoding="latin-1") as stream:
                fields = stream.read().rpartition(")")[2].split()
            table[int(entry)] = (int(fields[1]), int(fields[21]) * 4096)
        except (OSError, IndexError):
            pass
    return table


def offspring():
    table = processes()
    found, last = set(), {os.getpid()}
    while last:
        last = {pid for pid, (parent, _) in table.items() if parent in last and pid not in found}
        found |= last
    return found, sum(table[pid][1] for pid in found)


def end_offspring():
    """Whoever was left behind, wherever it belongs by now: this process is the reaper of its descendants."""
    while True:
        found, _ = offspring()
        if not found:
            return
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            while os.waitpid(-1, os.WNOHANG)[0] != 0:
                pass
        except ChildProcessError:
            pass
        time.sleep(0.01)


def adopt_descendants():
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class Runner:
    """Starts programs; one for each worker process."""

    def __init__(self, folder):
        self.temporary = folder / "tmp" / str(os.getpid())

    def run(self, program, tests, limit, extra):
        """How it ended ("green", "red", "time", "memory"), and after how many seconds."""
        shutil.rmtree(self.temporary, ignore_errors=True)
        self.temporary.mkdir(parents=True)
        environment = {**os.environ, **program.environment, **extra, "TMPDIR": str(self.temporary)}
        command = [*program.command, "--gtest_fail_fast", "--gtest_filter=" + ":".join(tests)]
        started, ended = time.monotonic(), None
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   start_new_session=True)
        look = 0.5
        while ended is None:
            try:
                ended = "green" if process.wait(timeout=look) == 0 else "red"
            except subprocess.TimeoutExpired:
                if time.monotonic() - started > limit:
                    ended = "time"
                elif offspring()[1] > MOST_MEMORY:
                    ended = "memory"
        seconds = time.monotonic() - started
        end_offspring()
        process.returncode = process.returncode or 0
        shutil.rmtree(self.temporary, ignore_errors=True)
        return ended, seconds


def tests_of(program):
    listed = subprocess.run([str(program.binary), "--gtest_list_tests"], capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL).stdout
    suite, found = "", []
    for line in listed.splitlines():
        line = line.partition("#")[0].rstrip()
        if line.startswith(" "):
            found.append(suite + line.strip())
        elif line.endswith("."):
            suite = line
    return found


def look_at(folder, program, tests):
    """What each test of a program reaches, without a mutation."""
    adopt_descendants()
    runner, result = Runner(folder), {}
    file = folder / "tmp" / f"seen.{os.getpid()}"
    for test in tests:
        for _ in range(2):  # one that is red once is asked again
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(bytes(SEEN_BYTES))
            ended, seconds = runner.run(program, [test], 120, {"MUTANTS_SEEN": str(file)})
            if ended == "green":
                break
        seen = file.read_bytes()
        result[test] = {"ended": ended, "seconds": round(seconds, 3), "reached": [n for n, byte in enumerate(seen) if byte],
                        "differed": [n for n, byte in enumerate(seen) if byte & 2]}
    file.unlink(missing_ok=True)
    return result


def fingerprint(*files):
    digest = hashlib.sha256()
    for file in files:
        digest.update(pathlib.Path(file).read_bytes())
    return digest.hexdigest()


def look(folder, programs, mutants_file, jobs):
    """By program and test, from the last look where nothing has changed since."""
    known = folder / "seen"
    known.mkdir(exist_ok=True)
    result, waiting = {}, {}
    with concurrent.futures.ProcessPoolExecutor(jobs) as pool:
        for program in programs:
            file, mark = known / f"{program.name}.json", fingerprint(program.binary, mutants_file)
            if file.exists() and (content := json.loads(file.read_text()))["mark"] == mark:
                result[program.name] = content["tests"]
            else:
                waiting[pool.submit(look_at, folder, program, tests_of(program))] = program, file, mark
        for future in concurrent.futures.as_completed(waiting):
            program, file, mark = waiting[future]
            tests = result[program.name] = future.result()
            file.write_text(json.dumps({"mark": mark, "tests": tests}))
            red = [f"{name} ({test['ended']})" for name, test in tests.items() if test["ended"] != "green"]
            seconds = sum(test["seconds"] for test in tests.values())
            print(f"{program.name}: {len(tests)} tests, {seconds:.0f} s{'; left out: ' + ', '.join(red) if red else ''}", flush=True)
    return result


class Hunt:
    """Which tests can tell which mutation, the cheapest first."""

    def __init__(self, folder, programs, seen, budget):
        self.folder, self.budget = folder, budget
        self.programs = {program.name: program for program in programs}
        self.reached, self.telling = set(), {}
        for name, tests in seen.items():
            for test, entry in tests.items():
                if entry["ended"] != "green":
                    continue
                self.reached.update(entry["reached"])
                for number in entry["differed"]:
                    self.telling.setdefault(number, []).append((entry["seconds"], name, test))
        for tests in self.telling.values():
            tests.sort()

    def batches(self, number):
        """Lists of tests by program."""
        left, spent = list(self.telling.get(number, [])), 0.0
        for size in [*BATCHES, self.budget]:
            batch, batch_seconds = {}, 0.0
            while left and (not batch or batch_seconds + left[0][0] <= size) and (not spent or spent + left[0][0] <= self.budget):
                seconds, name, test = left.pop(0)
                batch.setdefault(name, []).append((test, seconds))
                batch_seconds += seconds
                spent += seconds
            if batch:
                yield batch

    def ask(self, number):
        """The verdict on one mutation."""
        adopt_descendants()
        if number not in self.telling:
            return {"verdict": "makes no difference" if number in self.reached else "not reached", "tests": 0, "seconds": 0}
        runner, count, spent = Runner(self.folder), 0, 0.0
        for batch in self.batches(number):
            for name, tests in batch.items():
                ended, seconds = self.judge(runner, self.programs[name], tests, number)
                count += len(tests)
                spent += seconds
                if ended != "green":
                    return {"verdict": ended, "by": f"{name}: {':'.join(test for test, _ in tests)}"[:300], "tests": count, "seconds": round(spent, 2)}
        return {"verdict": "survived", "tests": count, "of": len(self.telling[number]), "seconds": round(spent, 2)}

    @staticmethod
    def judge(runner, program, tests, number):
        """How tests with the mutation end. That they take too long counts where they do not without it, on the same busy machine."""
        names, limit = [test for test, _ in tests], 8 + 6 * sum(seconds for _, seconds in tests)
        spent = 0.0
        while True:
            ended, seconds = runner.run(program, names, limit, {"MUTANT": str(number)})
            spent += seconds
            if ended != "time" or limit > 600:
                return ended, spent
            ended, seconds = runner.run(program, names, limit, {})
            spent += seconds
            if ended == "green" and 2 * seconds < limit:
                return "time", spent
            limit *= 2


hunt = None  # of this process and its workers, which have it from before they were forked


def ask(number):
    return hunt.ask(number)
