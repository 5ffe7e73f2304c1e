"""The rows B1 … B22: each brings one fault upon a job of two ranks of a peer, and says what became of it."""
import os
import signal
import subprocess
import time
import uuid

from jobs import Job, Room, lives, monotonic, said

CAP = 8  # seconds after which a job that still waits is said to hang
QUIET = "no output"


def outcome(job, known=None, since=None, **more):
    """Returns what every row tells."""
    limit = more.pop("limit", CAP)
    in_time = job.wait(limit)
    result = {"seconds_until_known": known, "seconds_until_over": round(monotonic() - (since or job.began), 3) if in_time else None, "codes": job.codes(),
              "says": said(job), **more}
    if not in_time:
        result["hangs"] = True
    return result


def leavings(job):
    """Returns what is there a moment after the job's end, or after the cap."""
    job.until(lambda: not job.processes_left(), 1)
    return {"processes_left": len(job.processes_left()), "shared_memory_left": job.room.left()}


def not_run(reason):
    return {"not_run": reason}


def running(peer, more=()):
    job = Job([peer.launch("loop", more=more)])
    if not job.runs():
        text = job.text()[-300:]
        job.close()
        raise RuntimeError(f"{peer.name} did not begin: {text}")
    return job


def hit(peer, act, ranks=(0,), more=(), **limits):
    """A fault in the middle of all_reduce calls of 1 MiB. `act` brings it, and returns the ranks that are to know, if not these."""
    with running(peer, more) as job:
        since = monotonic()
        act(job)
        known = job.all_know(ranks, since, limits.get("limit", CAP))
        return {**outcome(job, known and round(known, 3), since, **limits), **leavings(job)}


def killed(peer):
    return hit(peer, lambda job: os.kill(job.pids()[1], signal.SIGKILL))


def stopped(peer):
    return hit(peer, lambda job: os.kill(job.pids()[1], signal.SIGSTOP))


def launcher_killed(peer):
    return hit(peer, lambda job: job.processes[0].kill(), ranks=(0, 1))


def launcher_ended(peer):
    return hit(peer, lambda job: job.processes[0].terminate(), ranks=(0, 1))


def differ(peer, mode):
    with Job([peer.launch(mode)]) as job:
        job.until(lambda: len(job.events("ready")) == 2 or job.ended(), 30)
        result = outcome(job, None, monotonic())
        results = {rank: text for rank, _, text in job.events("result")}
        silently_wrong = len(job.events("done")) == 2 and job.codes() == [0]
        return {**result, "results": results, "silently_wrong": silently_wrong, "one_rank_returned": len(results) == 1, **leavings(job)}


def early_exit(peer, mode):
    with Job([peer.launch(mode)]) as job:
        job.until(lambda: job.events("fault"), 30)
        since = job.events("fault")[0][1]
        known = job.all_know((0,), since, CAP)
        return {**outcome(job, known and round(known, 3), since), **leavings(job)}


def by_environment(peer, ranks, sizes=None, limit=20):
    """Processes that find each other by the environment, without a launcher."""
    if not peer.by_environment:
        return not_run("its ranks are started by its launcher only")
    port = free_port()
    environment = [{"RANK": str(rank), "WORLD_SIZE": str(sizes[i] if sizes else 2), "LOCAL_RANK": str(rank), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
                   for i, rank in enumerate(ranks)]
    with Job([peer.rank("join")] * len(ranks), environment) as job:
        result = outcome(job, None, None, limit=limit)
        if job.events("knows"):
            result["seconds_until_known"] = round(max(at for _, at, _ in job.events("knows")) - job.began, 3)
        return {**result, **leavings(job)}


def free_port():
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


class Hosts:
    """Two network namespaces with a cable between them."""

    def __init__(self):
        tag = uuid.uuid4().hex[:6]
        self.names = [f"cf{tag}a", f"cf{tag}b"]
        self.ends = [f"ce{tag}a", f"ce{tag}b"]
        for name in self.names:
            self.run("ip", "netns", "add", name)
        self.run("ip", "link", "add", self.ends[0], "type", "veth", "peer", "name", self.ends[1])
        for i, (name, end) in enumerate(zip(self.names, self.ends)):
            self.run("ip", "link", "set", end, "netns", name)
            self.within(i, "ip", "addr", "add", f"10.77.0.{i + 1}/24", "dev", end)
            self.within(i, "ip", "link", "set", end, "up")
            self.within(i, "ip", "link", "set", "lo", "up")

    @staticmethod
    def run(*words):
        subprocess.run(words, check=True, capture_output=True)

    def within(self, i, *words):
        self.run("ip", "netns", "exec", self.names[i], *words)

    def prefixes(self):
        return [["ip", "netns", "exec", name] for name in self.names]

    def cut(self):
        for i, end in enumerate(self.ends):
            self.within(i, "tc", "qdisc", "add", "dev", end, "root", "blackhole")

    def heal(self):
        for i, end in enumerate(self.ends):
            self.within(i, "tc", "qdisc", "del", "dev", end, "root")

    def reset(self):
        self.within(0, "ss", "-K", "dst", "10.77.0.2")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def two_hosts(peer, mode, act=None, cap=14):
    if not peer.by_environment:
        return not_run("it starts ranks on other hosts by ssh, and there is none here")
    with Hosts() as hosts:
        environment = [{"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "10.77.0.1", "MASTER_PORT": "29631", "UNISONO_TOKEN": "none"}
                       for rank in range(2)]
        if act is not None:  # where the fault is another one, the interface is told
            environment = [{**each, "GLOO_SOCKET_IFNAME": end} for each, end in zip(environment, hosts.ends)]
        with Job([peer.rank(mode)] * 2, environment, prefixes=hosts.prefixes()) as job:
            if act is None:
                return {**outcome(job, None, None, limit=cap), "works": len(job.events("done")) == 2}
            if not job.runs(limit=25):
                return {**outcome(job, None, None, limit=0), "did_not_begin": True}
            since = monotonic()
            act(hosts)
            known = job.all_know((0, 1), since, cap)
            # Calls that both ranks complete in the last second show that the job goes on.
            goes_on = known is None and job.until(lambda: len({rank for rank, at, _ in job.events("runs") if at > since + cap - 1}) == 2, 4)
            result = outcome(job, known and round(known, 3), since, limit=0 if goes_on else 2)
            return {**result, **leavings(job), "goes_on": goes_on}


def healed(hosts):
    hosts.cut()
    time.sleep(3)  # the fault itself: a cut of three seconds
    hosts.heal()


def little_memory(peer):
    results = {}
    for size in ("64m", "4m", "1m"):
        with Job([peer.launch("large")], room=Room(size)) as job:
            result = outcome(job, None, None, limit=20)
            results[size] = {**result, "works": len(job.events("done")) == 2, **leavings(job)}
    return {"sizes": results}


def restarted(peer):
    if not peer.restarts:
        return not_run("its launcher restarts nothing")
    with running(peer, peer.restarts) as job:
        first, since = job.pids(), monotonic()
        os.kill(first[1], signal.SIGKILL)

        def both_run():
            begun = {rank: at for rank, at, _ in job.events("ready") if at > since}
            return len(begun) == 2 and len({rank for rank, at, _ in job.events("runs") if at > max(begun.values())}) == 2

        again = job.until(both_run, 40)
        return {"seconds_until_it_runs_again": round(monotonic() - since, 3) if again else None, "says": said(job)[:2]}


def as_shipped(peer):
    with Job([peer.plain()]) as job:
        return {**outcome(job, None, None, limit=20), "works": len(job.events("done")) == 2}


ROWS = [
    ("B1", "kill -9 of a rank in all_reduce", killed),
    ("B2", "SIGSTOP of a rank; calls may take 5 s", stopped),
    ("B3", "SIGKILL of the launcher", launcher_killed),
    ("B4", "SIGTERM of the launcher", launcher_ended),
    ("B5", "1,000 elements on one rank, 2,000 on the other", lambda peer: differ(peer, "count")),
    ("B6", "float32 and float64", lambda peer: differ(peer, "width")),
    ("B7", "float32 and int32", lambda peer: differ(peer, "dtype")),
    ("B8", "sum and product", lambda peer: differ(peer, "op")),
    ("B9", "all_reduce and broadcast", lambda peer: differ(peer, "operation")),
    ("B10", "exit(3) of a rank between two calls", lambda peer: early_exit(peer, "exit")),
    ("B11", "a rank never joins; 5 s are allowed", lambda peer: by_environment(peer, [0])),
    ("B12", "rank 1 is started twice", lambda peer: by_environment(peer, [0, 1, 1])),
    ("B13", "rank 0 is started twice", lambda peer: by_environment(peer, [0, 0, 1])),
    ("B14", "the ranks are told 2 and 3 ranks", lambda peer: by_environment(peer, [0, 1], [2, 3])),
    ("B15", "two hosts, no hint which interface", lambda peer: two_hosts(peer, "large")),
    ("B16", "the cable is cut silently; calls may take 5 s", lambda peer: two_hosts(peer, "loop", Hosts.cut)),
    ("B17", "the same for 3 s", lambda peer: two_hosts(peer, "loop", healed, cap=6)),
    ("B18", "the connections are reset", lambda peer: two_hosts(peer, "loop", Hosts.reset, cap=8)),
    ("B19", "/dev/shm of 64, 4 and 1 MiB", little_memory),
    ("B20", "exit(7) of a rank", lambda peer: early_exit(peer, "seven")),
    ("B21", "kill -9 of a rank with restarts", restarted),
    ("B22", "the launcher as it is, without options, as root", as_shipped),
]
