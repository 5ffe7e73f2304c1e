"""A job of a peer: started in a mount of its own, watched by the lines that its ranks print, and looked after when it is over."""
import os
import re
import signal
import subprocess
import tempfile
import time
import uuid

EVENT = re.compile(r"\b(ready|runs|fault|knows|result|done) (-?\d+) (\d+\.\d+) ?(.*)$")
MARK = "COMPARE_FAULTS_CASE"


def monotonic():
    return time.clock_gettime(time.CLOCK_MONOTONIC)


class Room:
    """A private /dev/shm of this size, in which what is left behind can be counted."""

    def __init__(self, size="1g"):
        self.holder = subprocess.Popen(["unshare", "-m", "sh", "-c", f"mount -t tmpfs -o size={size} none /dev/shm && echo open && exec sleep 1000"],
                                       stdout=subprocess.PIPE, text=True)
        if self.holder.stdout.readline() != "open\n":
            raise RuntimeError("no private /dev/shm can be mounted: this needs root")

    def within(self):
        return ["nsenter", f"--mount=/proc/{self.holder.pid}/ns/mnt", f"--wd={os.getcwd()}"]

    def left(self):
        return sorted(os.listdir(f"/proc/{self.holder.pid}/root/dev/shm"))

    def close(self):
        self.holder.kill()
        self.holder.wait()
        self.holder.stdout.close()


class Job:
    """Processes that were started together; `words` is the command of each."""

    def __init__(self, commands, environment=None, room=None, prefixes=None):
        self.room = room or Room()
        self.case = uuid.uuid4().hex
        self.output = tempfile.TemporaryFile("w+b")
        self.began = monotonic()
        self.processes = []
        for i, words in enumerate(commands):
            own = environment[i] if isinstance(environment, list) else environment or {}
            variables = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", **own, MARK: self.case}
            prefix = prefixes[i] if prefixes else []
            self.processes.append(subprocess.Popen(prefix + self.room.within() + words, stdout=self.output, stderr=subprocess.STDOUT,
                                                   stdin=subprocess.DEVNULL, env=variables, start_new_session=True))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def text(self):
        return os.pread(self.output.fileno(), 1 << 22, 0).decode(errors="replace")

    def events(self, kind):
        found = []
        for line in self.text().splitlines():
            match = EVENT.search(line)
            if match and match.group(1) == kind:
                found.append((int(match.group(2)), float(match.group(3)), match.group(4).strip()))
        return found

    def until(self, condition, limit):
        end = monotonic() + limit
        while monotonic() < end:
            if condition():
                return True
            time.sleep(0.005)
        return condition()

    def pids(self):
        """The number of each rank's process, of its last attempt."""
        return {rank: int(text) for rank, _, text in self.events("ready")}

    def runs(self, ranks=2, limit=40):
        return self.until(lambda: len({rank for rank, _, _ in self.events("runs")}) == ranks, limit)

    def ended(self):
        return all(process.poll() is not None for process in self.processes)

    def wait(self, limit):
        return self.until(self.ended, limit)

    def codes(self):
        return [process.poll() if process.poll() is None or process.poll() >= 0 else 128 - process.poll() for process in self.processes]

    def all_know(self, ranks, since, limit):
        """Seconds until each of these ranks has said that it knows, or its process has ended; None where one of them did neither."""
        known, pids = {}, self.pids()

        def look():
            said = {rank: at for rank, at, _ in self.events("knows") if at >= since}
            for rank in ranks:
                if rank in known:
                    continue
                if rank in said:
                    known[rank] = said[rank]
                elif not lives(pids[rank]):
                    known[rank] = monotonic()
            return len(known) == len(ranks)

        return max(known.values()) - since if self.until(look, limit) else None

    def processes_left(self):
        """Processes of this job that live."""
        mark, found = f"{MARK}={self.case}".encode(), []
        for name in os.listdir("/proc"):
            try:
                if name.isdigit() and mark in open(f"/proc/{name}/environ", "rb").read() and lives(int(name)):
                    found.append(int(name))
            except OSError:
                pass
        return found

    def close(self):
        for pid in self.processes_left():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for process in self.processes:
            process.wait()
        self.room.close()
        self.output.close()


def lives(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


NOISE = re.compile(r"^[\s*=\-+|]*$|^=*\s*\d+\s+/|backtrace|Traceback|^\[W|^\s*at |Setting OMP|warnings?:|^W\d{4}|^\s*File \"|torch_rank.py FAILED|^<")
TELLING = re.compile(r"on signal|exit ?code *:|exit string|truncat|the cause|rank \d+ (exited|ended|was)", re.I)
SAYS = re.compile(r"knows|rror|abort|Abort|fail|Fail|FAIL|signal|killed|Killed|terminat|TERMINAT|truncat|refuse|root|lost|not |full|exit", re.I)


def without_folders(text):
    return re.sub(r"(?<![\w:/])/(?:[\w.@+-]+/)+", "", text)


def said(job):
    """Returns what a user reads of it: the exception of a rank, or else the first lines that speak of an error."""
    knows = job.events("knows")
    if knows:
        return [without_folders(f"rank {rank}: {text}") for rank, _, text in sorted(knows, key=lambda event: event[1])]
    # Without the time and place that a log puts before its sentences.
    lines = [re.sub(r"^[EWI]\d{4} .*?\] ", "", line.strip(" \t=")) for line in job.text().splitlines() if not EVENT.search(line)]
    lines = [without_folders(line) for line in lines if not NOISE.search(line) and SAYS.search(line)]
    return sorted(lines, key=lambda line: not TELLING.search(line))[:6]
