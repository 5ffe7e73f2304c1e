"""A job of Slurm: its ranks and its first host, from its variables."""

import re
import warnings

from .._slurm import expand_hostlist, warn_of_batch_script

NEEDED = ("SLURM_JOB_ID", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS", "SLURM_JOB_NODELIST", "SLURM_JOB_NUM_NODES")
TORCHS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
FIRST_PORT = 15000
PORTS = 10000


def slurm_variables(environ):
    """RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT of this process.

    All five in the environment (a launcher within one task, or a hook of a container) win over Slurm's where they agree with them; some of them are a
    warning. The port is 15000 plus the last four digits of the job's number. Raises RuntimeError where variables are missing or contradict each other.
    """
    for name in NEEDED:
        if name not in environ:
            raise RuntimeError(f"SLURM distributed configuration is missing '{name}' in env variables")
    slurm = {"RANK": int(environ["SLURM_PROCID"]), "LOCAL_RANK": int(environ["SLURM_LOCALID"]), "WORLD_SIZE": int(environ["SLURM_NTASKS"])}
    given = {name: environ[name] for name in TORCHS if environ.get(name)}
    if len(given) == len(TORCHS):
        _check_agreement(slurm, given, int(environ["SLURM_JOB_NUM_NODES"]))
        return {name: text if name == "MASTER_ADDR" else int(text) for name, text in given.items()}
    if given:
        warnings.warn(
            f"We detected the following env variables: {sorted(given.items())}, but will not take them into account as the following env vars are "
            f"missing: {[name for name in TORCHS if name not in given]}",
            stacklevel=2,
        )
    warn_of_batch_script(environ)
    nodes = environ["SLURM_JOB_NODELIST"]
    hosts = expand_hostlist(nodes)
    if not hosts:
        raise RuntimeError(f"No hostname detected in SLURM_JOB_NODELIST by unisono (nodelist={nodes})")
    number = int(re.match(r"\d*", environ["SLURM_JOB_ID"])[0] or 0)  # of an array's job, 12_3, the first
    return {**slurm, "MASTER_ADDR": hosts[0], "MASTER_PORT": FIRST_PORT + number % PORTS}


def _check_agreement(slurm, given, nodes):
    for name, ours in slurm.items():
        theirs = int(given[name])
        if theirs < ours or (nodes > 1 and theirs != ours):
            expected = f"We expect that {name}: {theirs} {'>=' if nodes == 1 else '=='} {ours}"
            raise RuntimeError(
                f"Environment variable defined for PyTorch Distributed context is inconsistent with equivalent SLURM env variable. "
                f"{name}: {theirs} vs {ours}. {expected}"
            )
