"""How long the ranks of unisono take to know that one of them was killed."""
import os
import signal
import statistics

from jobs import Job, monotonic
from rows import Hosts

RANKS = 4


def killed_once(job, victim):
    if not job.runs(RANKS):
        raise RuntimeError("the job did not begin: " + job.text()[-300:])
    since = monotonic()
    os.kill(job.pids()[victim], signal.SIGKILL)
    known = job.all_know([rank for rank in range(RANKS) if rank != victim], since, 30)
    if known is None:
        raise RuntimeError("a rank did not learn of it: " + job.text()[-300:])
    return known


def on_one_host(peer, victim):
    with Job([peer.launch("loop", RANKS)]) as job:
        return killed_once(job, victim)


def on_two_hosts(peer, victim):
    commands = [peer.launch("loop", RANKS // 2, ["--nnodes", "2", "--node-rank", str(node), "--master-addr", "10.77.0.1", "--master-port", "29641"])
                for node in range(2)]
    with Hosts() as hosts, Job(commands, {"UNISONO_TOKEN": "none"}, prefixes=hosts.prefixes()) as job:
        return killed_once(job, victim)


def measure(peer, runs):
    results = []
    for where, once in (("one host, 4 ranks", on_one_host), ("two hosts, 2 ranks on each", on_two_hosts)):
        values = sorted(once(peer, i % RANKS) for i in range(runs))
        results.append({"where": where, "runs": runs, "median": statistics.median(values), "maximum": values[-1], "seconds": values})
        print(f"{where}: median {statistics.median(values):.4f} s, maximum {values[-1]:.4f} s", flush=True)
    return results
