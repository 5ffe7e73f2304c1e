"""The bench's drivers among network namespaces: Open MPI's and MPICH's launchers start them, as on hosts of their own."""

import json
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

from hosts import driver
from hosts.cells import PEERS, asked_size, bytes_of
from hosts.namespaces import Hosts

ON_NET0 = {"UNISONO_INTERFACE": "net0", "GLOO_SOCKET_IFNAME": "net0", "OMP_NUM_THREADS": "1",
           "OMPI_MCA_btl_tcp_if_include": "net0", "OMPI_MCA_oob_tcp_if_include": "net0", "MPIR_CVAR_CH4_NETMOD": "ucx",
           "UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "net0"}
IPERF_SECONDS = 3


def launcher(peer, agent, hosts, each):
    """Returns the words that start ranks on all hosts, each host's ranks in turn, as `unisono run` has it."""
    names = [f"host{number}" for number in range(hosts)]
    ranks = str(hosts * each)
    if peer == "openmpi":
        words = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--map-by", "slot", "-n", ranks,
                 "--host", ",".join(f"{name}:{each}" for name in names), "--mca", "plm_rsh_agent", agent]
        for variable in (*ON_NET0, "UNISONO_PLUGIN_PATH", "UNISONO_TOKEN"):
            words += ["-x", variable]
        return words + (["--mca", "mpi_yield_when_idle", "1"] if hosts * each > os.cpu_count() else [])
    return ["mpiexec.mpich", "-launcher", "ssh", "-launcher-exec", agent, "-iface", "net0", "-n", ranks, "-ppn", str(each), "-hosts", ",".join(names)]


def measure(build, among, each, operations, sizes, peers, rounds):
    """Returns the cells of one shape, and unisono's median times by operation and size. Gloo is measured in the processes of the first MPI."""
    count = len(among.pids)
    wanted = [bytes_of(size) for size in sizes]
    cells, own = [], {}
    sets = [peer for peer in peers if peer != "gloo"]
    if not sets:
        sys.exit(f"{driver.name()}: on shaped links an MPI starts the ranks: name openmpi or mpich as well")
    program = f"{build}/libexec/unisono/unisono-bench-mpi"
    variables = {**ON_NET0, "UNISONO_PLUGIN_PATH": f"{build}/lib", "UNISONO_TOKEN": secrets.token_hex(16)}
    driver.check_programs(program, *(f"{program}.{peer}.so" for peer in sets))
    with tempfile.TemporaryDirectory() as folder:
        agent = f"{folder}/agent"
        among.write_agent(agent)
        for number, peer in enumerate(sets):
            measured = [peer] + (["gloo"] if number == 0 and "gloo" in peers else [])
            samples = driver.carry_out(
                lambda plan, peer=peer: [*among.enter(0), *launcher(peer, agent, count, each), program, plan],
                rounds, variables, operations=operations, sizes=wanted, ranks=count * each, backend="tcp", mpi=peer,
                candidates=["unisono", *measured], bind=count * each <= os.cpu_count())
            cells += cells_of(samples, f"{count}x{each}", wanted)
            for (impl, op, size), times in samples.items():
                if impl == "unisono":
                    own.setdefault((op, asked_size(wanted, size)), statistics.median(times))
    return cells, own


def cells_of(samples, shape, wanted):
    cells = []
    for (impl, op, size), times in samples.items():
        if impl in PEERS:
            ratio = statistics.median(theirs / ours for theirs, ours in zip(times, samples["unisono", op, size]))
            cells.append({"shape": shape, "op": op, "size": asked_size(wanted, size), "peer": impl, "ratio": ratio, "us": statistics.median(times)})
    return cells


def iperf_mbit(among):
    """Returns the rate at which each host sends, while each sends to the next one and receives from the one before: the streams of a ring."""
    count = len(among.pids)
    servers = [subprocess.Popen([*among.enter(host), "iperf3", "--server", "--one-off", "--forceflush"], stdout=subprocess.PIPE, text=True) for host in range(count)]

    def send(host):
        words = [*among.enter(host), "iperf3", "--client", among.addresses[(host + 1) % count], "--time", str(IPERF_SECONDS), "--omit", "1", "--json"]
        out = subprocess.run(words, capture_output=True, text=True, check=False).stdout
        report = json.loads(out)
        if "error" in report:
            raise RuntimeError(f"iperf3 on host {host}: {report['error']}")
        return report["end"]["sum_received"]["bits_per_second"] / 1e6

    try:
        for server in servers:
            if not any("listening" in line for line in server.stdout):
                raise RuntimeError("a server of iperf3 has ended")
        with ThreadPoolExecutor(count) as threads:
            return statistics.fmean(threads.map(send, range(count)))
    finally:
        for server in servers:
            server.terminate()
            server.wait()


def share_of_iperf(among, each, microseconds, size):
    """Prints how near an all_reduce comes to what TCP carries here. Each host has to send 2 (n - 1) / n of the vector."""
    count = len(among.pids)
    rate = iperf_mbit(among)
    least = 2 * (count - 1) / count * size * 8 / rate
    print(f"{count}x{each}: iperf3 {rate:.0f} Mbit/s from each host, {count} streams in a ring; all_reduce of {size >> 10} KiB takes {microseconds:.0f} us, "
          f"at that rate {least:.0f} us: {100 * least / microseconds:.0f} %", flush=True)


def measured(build, shapes, operations, sizes, peers_for, rounds, link):
    """Returns the cells of all shapes; prints the share of iperf3's rate that the largest all_reduce of each reaches."""
    cells = []
    for shape in shapes:
        count, each = map(int, shape.split("x"))
        with Hosts(count, build, **link) as among:
            some, own = measure(build, among, each, operations, sizes, peers_for(count * each), rounds)
            cells += some
            large = [(size, time) for (op, size), time in own.items() if op == "all_reduce"]
            if large:
                share_of_iperf(among, each, max(large)[1], max(large)[0])
    return cells
