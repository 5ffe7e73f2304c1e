"""Ranks that present themselves as being on several hosts, over the loopback interface: `unisono bench` measures them beside the peers."""

import json
import os
import subprocess
import tempfile

from hosts.cells import PEERS, asked_size, bytes_of

# These variables keep the peers off shared memory, so that they use TCP as between hosts. MPICH's Debian build works on UCX, whose transports UCX_TLS names; that of
# PyPI and Intel MPI work on libfabric. Intel MPI's collectives use shared memory beside libfabric, unless they consist of messages.
TCP_ALONE = {"OMPI_MCA_btl": "tcp,self", "MPIR_CVAR_NOLOCAL": "1", "UCX_TLS": "tcp,self", "FI_PROVIDER": "tcp", "I_MPI_FABRICS": "ofi",
             "I_MPI_COLL_INTRANODE": "pt2pt"}


def measure(command, hosts, ranks, operations, sizes, peers, rounds):
    """Returns the cells of one shape. Each peer is measured in turns with unisono, in a set of processes of its own; a ratio is of the same set."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out.json")
        subprocess.run([command, "bench", *operations, "-n", str(ranks), "--hosts", str(hosts), "--backend", "tcp", "--sizes", ",".join(sizes),
                        "--peers", ",".join(peers), "--rounds", str(rounds), "--json", out], check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, **TCP_ALONE})
        with open(out, encoding="utf-8") as file:
            rows = json.load(file)
    wanted = [bytes_of(size) for size in sizes]
    return [{"shape": f"{hosts}x{ranks // hosts}", "op": row["op"], "size": asked_size(wanted, row["bytes"]), "peer": row["impl"],
             "ratio": row["ratio"]["median"], "us": row["median_us"]} for row in rows if row["impl"] in PEERS]
