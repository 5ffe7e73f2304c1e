"""Starts of a job of several hosts, which are network namespaces: how long they take, what a rank's memory is, what is left over, and what the steps
cost from which `unisono simulate` computes larger ones."""

import json
import os
import resource
import secrets
import statistics
import subprocess
import sys
import tempfile
import time

from hosts.driver import check_programs, check_tools, name
from hosts.namespaces import Hosts

TOOLS = ("ip", "unshare", "nsenter", "setpriv", "ss")
RANKS, THREADS = 8, 8  # which ask as often as the 64 ranks of a host, where the costs are measured
REQUESTS, BYTES = 500, 4 << 20  # of a thread, and of the value


def variables(**more):
    return {**os.environ, "UNISONO_TOKEN": secrets.token_hex(16), **more}


def children():
    """Returns the processes that have this one as their parent, as it takes those over that a job leaves behind, with their commands."""
    found = {}
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/children", encoding="ascii") as file:
            for pid in file.read().split():
                with open(f"/proc/{pid}/comm", encoding="utf-8") as comm:
                    found[int(pid)] = comm.read().strip()
    return found


def sockets_of(hosts):
    """Returns the sockets of jobs that the hosts have, by their addresses."""
    found = []
    for number in range(len(hosts.pids)):
        words = hosts.enter(number) + ["sh", "-c", "cat /proc/net/unix && ss -Hnta | sed 's/^/tcp /'"]
        for line in subprocess.run(words, stdout=subprocess.PIPE, text=True, errors="replace", check=True).stdout.splitlines():
            if "@unisono" in line or (line.startswith("tcp") and "TIME-WAIT" not in line):
                found.append(f"socket {line.split()[-1]} on host{number}")
    return found


def once(hosts, build, per_host):
    """Starts one job by `unisono run --hosts`, and returns what it took."""
    names = ",".join(f"host{number}:{per_host}" for number in range(len(hosts.pids)))
    with tempfile.TemporaryDirectory() as folder:
        hosts.write_agent(f"{folder}/agent")
        words = [f"{build}/bin/unisono", "run", "--hosts", names, "--ssh", f"{folder}/agent", "--wdir", folder, "--",
                 f"{build}/bench/peers/startup/startup-unisono", "--once"]
        before = children()
        used, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        job = subprocess.run(hosts.enter(0) + words, env=variables(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False)
        seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    said = [line.split("startup-once ", 1)[1] for line in job.stdout.splitlines() if "startup-once " in line]
    if job.returncode != 0 or len(said) != 1:
        sys.exit(f"{name()}: a job of {len(hosts.pids)} hosts with {per_host} ranks each ended with code {job.returncode}\n{job.stdout}")
    left = [f"process {pid} ({command})" for pid, command in children().items() if pid not in before] + sockets_of(hosts)
    processors = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
    return {**json.loads(said[0]), "hosts": len(hosts.pids), "seconds": seconds, "processor_seconds": processors, "left_over": left}


def start_over_hosts(build, count, per_host, rounds):
    check_tools(*TOOLS)
    check_programs(f"{build}/bin/unisono", f"{build}/bench/peers/startup/startup-unisono")
    with Hosts(count, build) as hosts:
        starts = [once(hosts, build, per_host) for _ in range(rounds)]
    print(f"\n{count * per_host} ranks on {count} hosts: started, one barrier, one all_reduce of 4 KiB, ended\n")
    print("| s | s of processors | the longest of a rank: join, barrier, all_reduce (s) "
          "| memory of a rank beyond the program's: mean, most (MiB) | left over |")
    print("|---|---|---|---|---|")
    for start in starts:
        print(f"| {start['seconds']:.1f} | {start['processor_seconds']:.1f} "
              f"| {start['join_s']:.2f}, {start['barrier_s']:.3f}, {start['all_reduce_s']:.3f} "
              f"| {start['mean_kib'] / 1024:.2f}, {start['most_kib'] / 1024:.2f} | {', '.join(start['left_over']) or 'nothing'} |")
    return starts


def thread_times(pid):
    """Returns the nanoseconds that each thread of a process has run."""
    times = {}
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/schedstat", encoding="ascii") as file:
            times[task] = int(file.read().split()[0])
    return times


def used_between(before, after):
    return {task: after[task] - before.get(task, 0) for task in after}


def costs_once(hosts, build):
    """Returns the microseconds of a request in the store of the job and in the launcher that hands it on, and the nanoseconds of a byte that a launcher
    gives one of its ranks."""
    with tempfile.TemporaryDirectory() as folder:
        pipe = f"{folder}/go"
        os.mkfifo(pipe)
        launchers = []
        shared = variables()
        for number, ranks in enumerate((1, RANKS)):
            words = [f"{build}/bin/unisono", "run", "--nnodes", "2", "--node-rank", str(number), "--master-addr", hosts.addresses[0], "-n", str(ranks), "--",
                     f"{build}/bench/peers/startup/startup-store", str(REQUESTS), str(BYTES), pipe]
            launchers.append(subprocess.Popen(hosts.enter(number) + words, env=shared, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True))
        marks = {}
        for line in launchers[0].stdout:
            if "startup-mark " not in line:
                continue
            marks[line.split()[-1]] = [thread_times(launcher.pid) for launcher in launchers]
            with open(pipe, "w", encoding="ascii"):
                pass
        codes = [launcher.wait(60) for launcher in launchers]
    if codes != [0, 0] or len(marks) != 3:
        sys.exit(f"{name()}: the launchers ended with codes {codes}, after {len(marks)} of 3 marks")
    of_store, of_launcher = (used_between(marks["begin"][which], marks["requests"][which]) for which in (0, 1))
    of_value = used_between(marks["requests"][1], marks["value"][1])
    requests = REQUESTS * RANKS * THREADS
    return {"store_us": max(of_store.values()) / requests / 1000, "launcher_us": sum(of_launcher.values()) / requests / 1000,
            "local_ns_per_byte": sum(of_value.values()) / (BYTES * RANKS)}


def costs_over_hosts(build, rounds):
    check_tools(*TOOLS)
    check_programs(f"{build}/bin/unisono", f"{build}/bench/peers/startup/startup-store")
    with Hosts(2, build) as hosts:
        costs = [costs_once(hosts, build) for _ in range(rounds)]
    medians = {key: statistics.median(each[key] for each in costs) for key in costs[0]}
    print(f"\nRelayCosts of tools/simulate/startup.h, from {RANKS} ranks with {THREADS} threads each; medians of {rounds} rounds\n")
    for key, value in medians.items():
        print(f"{key} = {value:.2f}")
    return medians
