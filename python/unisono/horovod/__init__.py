"""The modules that programs of Horovod import: `unisono.horovod.torch`, and `unisono.horovod.run`."""

import inspect
import shlex
import warnings

from .._errors import Unsupported
from .._function_job import FunctionJob, RankFailed

__all__ = ["run"]


# fmt: off
def run(
    func, args=(), kwargs=None, num_proc=1, min_num_proc=None, max_num_proc=None, slots=None, reset_limit=None, cooldown_range=None, hosts=None, hostfile=None,
    host_discovery_script=None, start_timeout=None, ssh_port=None, ssh_identity_file=None, disable_cache=None, output_filename=None, verbose=None,
    use_gloo=None, use_mpi=None, mpi_args=None, network_interface=None, network_interfaces=None, executable=None, np=None, min_np=None, max_np=None,
):
    # fmt: on
    """Runs func(*args, **kwargs) in the ranks of a job of `unisono run`, and returns what they returned, in rank order. The function calls hvd.init itself.

    num_proc: how many ranks. min_num_proc, max_num_proc: of an elastic job. It starts the larger number, goes on while the smaller one lives, and
    replaces lost ranks, `reset_limit` of them (10). The results are those of the ranks that ended well. hosts ("a:2,b:2") or hostfile: other hosts,
    by ssh, which share the working folder. output_filename: a folder with a file for each rank. executable: in place of this Python. use_mpi: the
    ranks are one world of MPI.

    use_gloo, mpi_args, disable_cache, cooldown_range, start_timeout and verbose have no effect. np, min_np and max_np are
    the older names of num_proc, min_num_proc and max_num_proc. The function is sent by cloudpickle if that is installed, otherwise by pickle.

    Raises RuntimeError for the rank that failed first, with its traceback, and ValueError for arguments that contradict each other. Raises Unsupported for
    host_discovery_script, slots and network interfaces, and for an elastic job on other hosts. `unisono run --nnodes MIN:MAX` and UNISONO_INTERFACE are for these.

        results = unisono.horovod.run(train, (config,), num_proc=4)
    """
    for old, new, value in (("np", "num_proc", np), ("min_np", "min_num_proc", min_np), ("max_np", "max_num_proc", max_np)):
        if value is not None:
            warnings.warn(f"{old} is deprecated, use {new} instead", DeprecationWarning, stacklevel=2)
    num_proc, min_num_proc, max_num_proc = np or num_proc, min_np or min_num_proc, max_np or max_num_proc
    if hosts is not None and hostfile is not None:
        raise ValueError("Argument hosts and hostfile only allow one provided.")
    if use_gloo and use_mpi:
        raise ValueError("Argument use_gloo and use_mpi only allow one set True.")
    there_is_none = {"host_discovery_script": host_discovery_script, "slots": slots, "network_interfaces": network_interfaces or network_interface}
    for name, value in there_is_none.items():
        if value is not None:
            raise Unsupported(f"horovod.run has no {name}: hosts that come and go are for `unisono run --nnodes MIN:MAX`, networks for UNISONO_INTERFACE")
    fewest, most = min_num_proc or num_proc, max_num_proc or max(num_proc, min_num_proc or 1)
    if not 1 <= fewest <= most:
        raise ValueError(f"horovod.run starts at least one rank, and no more than the largest number: not {fewest} to {most}")
    is_elastic = min_num_proc is not None or max_num_proc is not None
    far = _hosts(hosts, hostfile, ssh_port, ssh_identity_file)
    if is_elastic and far:
        raise Unsupported("horovod.run starts no elastic job on other hosts: `unisono run --nnodes MIN:MAX` on each of them does")
    options = ["-n", f"{fewest}:{most}" if is_elastic else str(num_proc)]
    options += ["--max-restarts", str(10 if reset_limit is None else reset_limit)] if is_elastic else []
    options += far
    options += ["--backend", "mpi"] if use_mpi else []
    options += ["--logs", output_filename] if output_filename else []
    job = FunctionJob("horovod.run", _call, (func, tuple(args), dict(kwargs or {})), range(most), options, executable=executable, on_hosts=bool(far))
    try:
        results = job.join()
    except RankFailed as failed:
        raise RuntimeError(f"horovod.run: {failed}") from None
    return list(results.values()) if is_elastic else [results.get(rank) for rank in range(num_proc)]


RUN_ARGUMENTS = tuple(name for name in inspect.signature(run).parameters if name not in ("func", "args", "kwargs", "num_proc", "np", "hosts"))


def _call(function, args, kwargs):
    return function(*args, **kwargs)


def _hosts(hosts, hostfile, port, key):
    """The options of `unisono run` for other hosts than this one."""
    names = [name.rpartition(":")[0] or name for name in hosts.split(",")] if hosts else []
    if hostfile is None and all(name in ("localhost", "127.0.0.1") for name in names):
        return []
    ssh = shlex.join(["ssh", *(["-p", str(port)] if port else []), *(["-i", key] if key else [])])
    return ["--hosts" if hosts else "--hostfile", hosts or hostfile, "--ssh", ssh]
