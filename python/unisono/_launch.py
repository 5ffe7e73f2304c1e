"""Processes and threads that a program starts itself: spawn, launch, Parallel, run_threads."""

import sys
import urllib.parse

from . import _core, _ending, _processes
from ._context import initialize
from ._errors import AlreadyInitialized, BackendUnavailable, NotInitialized, refusal
from ._function_job import nodes_of


def _refuse(operation, what, hint=None):
    raise refusal(operation, what, hint)


def is_launched():
    """Whether this process was started as one of several, and has not joined them."""
    try:
        _core.world_size()
    except NotInitialized:
        return True
    return False


def _check_not_within_a_job(operation):
    if _core.is_initialized():
        raise AlreadyInitialized(f"{operation}: nested use: this process is part of a job already (call it before initialize or after finalize)")
    if is_launched():
        _refuse(
            operation,
            "nested use: this process was started as one of several, and each of them would start a job of its own",
            "start the program without a launcher, or call initialize instead",
        )


def spawn(
    function,
    *args,
    nproc_per_node=1,
    backend="auto",
    nnodes=1,
    node_rank=0,
    master_addr="",
    master_port=0,
    init_method="",
    timeout=None,
):
    """Runs a function in processes of its own, each in an initialized context.

    The processes are new interpreters that import the main module under another name, as those of
    multiprocessing do. A program keeps what starts them behind `if __name__ == "__main__":`.

    Parameters
    ----------
    function : callable
        Called as function(local_rank, *args). It and `args` are pickled, so that functions and
        classes come from a module or from the program's file.
    *args : object
        Further arguments.
    nproc_per_node : int, default 1
        The number of processes of this node.
    backend : str, default "auto"
        As in `initialize`. With "mpi" the processes are one world of MPI, which `unisono run`
        starts; `ends` then has the exit code or the signal of the culprit alone.
    nnodes : int, default 1
        The number of nodes, each of which calls `spawn`.
    node_rank : int, default 0
        The number of this node.
    master_addr : str, default ""
        The address of node 0, where the nodes meet.
    master_port : int, default 0
        The port there.
    init_method : str, default ""
        The place where the nodes meet, instead of the address and the port.
    timeout : float or timedelta, optional
        The seconds of every call that says nothing else.

    Returns
    -------
    list of object
        The results of the processes of this node, in rank order.

    Raises
    ------
    LaunchFailed
        If a process raised, exited or was killed. `culprit` is the rank that failed first, `ends`
        says how all did, and its exception is the cause. The others have 15 s to end.
    InvalidArgument
        For numbers that do not fit, and in a process that was launched.
    AlreadyInitialized
        Within a job.

    Examples
    --------
    Alone; pow(local_rank, 2) runs in each process:

    >>> unisono.spawn(pow, 2, nproc_per_node=3)
    [0, 1, 4]
    """
    for name, value in (("nproc_per_node", nproc_per_node), ("nnodes", nnodes)):
        if value < 1:
            _refuse("spawn", f"{name} must be at least 1, not {value}")
    if not 0 <= node_rank < nnodes:
        _refuse("spawn", f"node_rank must be from 0 to {nnodes - 1}, not {node_rank}")
    _check_not_within_a_job("spawn")
    if init_method and (master_addr or master_port):
        _refuse("spawn", f'init_method "{init_method}" and a master address say both where to meet')
    if nnodes > 1 and not init_method:
        if not master_addr or not master_port:
            _refuse("spawn", f"processes of {nnodes} nodes need a place to meet: give master_addr and master_port, or init_method")
        init_method = f"tcp://{f'[{master_addr}]' if ':' in master_addr and not master_addr.startswith('[') else master_addr}:{master_port}"
    if backend == "mpi":
        ranks = range(node_rank * nproc_per_node, (node_rank + 1) * nproc_per_node)
        return _processes.run_mpi(function, args, ranks, _nodes_of_mpi(nnodes, node_rank, init_method), timeout)
    options = {"backend": backend, "timeout": timeout, "init_method": init_method}
    return _processes.run(function, args, nproc_per_node, nnodes * nproc_per_node, node_rank * nproc_per_node, options)


def _nodes_of_mpi(nnodes, node_rank, init_method):
    if not _core.is_backend_available("mpi"):
        raise refusal("spawn", "the backend mpi cannot be used here", "unisono info says why", BackendUnavailable)
    place = urllib.parse.urlsplit(init_method)
    if nnodes > 1 and (place.scheme != "tcp" or place.port is None):
        _refuse("spawn", f"the nodes of an MPI world meet at master_addr and master_port, or at tcp://host:port, and not at {init_method}")
    return nodes_of(nnodes, node_rank, place.hostname, place.port)


class _WithoutRank:
    """A job of launch, as a function of spawn."""

    def __init__(self, job):
        self.job = job

    def __call__(self, local_rank, *args):
        return self.job(*args)


def launch(job, num_machines=1, num_gpus_per_machine=1, machine_rank=0, dist_url="", args=()):
    """Runs a job on every GPU, or in as many processes, of several machines.

    It is `spawn` with the rank machine_rank * num_gpus_per_machine + local rank. A single process is
    not started: the job runs in this one, in a context of its own.

    Parameters
    ----------
    job : callable
        Called with `args` and nothing else; local_rank() tells it which process it is.
    num_machines : int, default 1
        The number of machines.
    num_gpus_per_machine : int, default 1
        The number of processes of each.
    machine_rank : int, default 0
        The number of this machine.
    dist_url : str, default ""
        The place where they meet: tcp://host:port of machine 0, or file:///path. One machine needs
        none, and "auto" stands for none.
    args : sequence of object, default ()
        The arguments of the job.

    Returns
    -------
    list of object
        The results of the processes of this machine.

    Raises
    ------
    InvalidArgument
        For numbers that do not fit, a missing `dist_url`, and in a process that was launched.
    AlreadyInitialized
        Within a job.
    LaunchFailed
        If a process failed: see `spawn`.

    Examples
    --------
    Alone:

    >>> unisono.launch(unisono.all_reduce, num_gpus_per_machine=3, args=(2,))
    [6, 6, 6]
    """
    if num_machines < 1 or num_gpus_per_machine < 1:
        _refuse("launch", f"{num_machines} machines with {num_gpus_per_machine} processes each are none")
    if not 0 <= machine_rank < num_machines:
        _refuse("launch", f"machine_rank must be from 0 to {num_machines - 1}, not {machine_rank}")
    dist_url = "" if dist_url in (None, "auto") else dist_url
    if num_machines > 1 and not dist_url:
        _refuse("launch", f"{num_machines} machines need a dist_url at which they meet")
    _check_not_within_a_job("launch")
    if num_machines * num_gpus_per_machine > 1:
        return spawn(
            _WithoutRank(job), *args, nproc_per_node=num_gpus_per_machine, nnodes=num_machines, node_rank=machine_rank, init_method=dist_url
        )
    initialize(rank=0, world_size=1, store=_core.MemoryStore())
    try:
        result = job(*args)
    except BaseException as error:
        _core._leave_because(_ending.describe(error) or "left its scope")
        raise
    _core.finalize()
    return [result]


class Parallel:
    """One spelling for a program that runs alone, under a launcher, or starts its processes itself.

    Without a backend it uses the world there is. With one it joins the job that the launcher or
    `init_method` names, in its scope. With `nproc_per_node` as well it starts processes. Rank 0
    writes to the standard error output what begins and ends.

    Parameters
    ----------
    backend : str, optional
        As in `initialize`.
    nproc_per_node : int, optional
        The number of processes that are started on this host.
    nnodes, node_rank : int, optional
        The number of hosts, and the number of this one.
    master_addr : str, optional
        The address of host 0.
    master_port : int, optional
        The port at which the hosts meet there.
    init_method : str, optional
        The place where the processes meet, instead of the address and the port.
    timeout : float or timedelta, optional
        The seconds of every call that says nothing else.

    Methods
    -------
    run(function, *args)
        Returns what each process of this host returned of function(local_rank, *args).

    Raises
    ------
    InvalidArgument
        If something is given without a backend, or `node_rank` is missing among several hosts.
    NotInitialized
        If there is no backend and the process was launched and has not joined the job.

    Examples
    --------
    Alone; pow(local_rank, 2) runs in each process:

    >>> with unisono.Parallel(backend="native", nproc_per_node=3) as parallel:
    ...     parallel.run(pow, 2)
    [0, 1, 4]
    """

    def __init__(
        self, backend=None, nproc_per_node=None, nnodes=None, node_rank=None, master_addr=None, master_port=None, init_method=None, timeout=None
    ):
        given = {"nproc_per_node": nproc_per_node, "nnodes": nnodes, "node_rank": node_rank, "master_addr": master_addr, "master_port": master_port}
        given = {name: value for name, value in given.items() if value is not None}
        self._backend, self._given, self._joined = backend, given, False
        self._init_method, self._timeout = init_method or "", timeout
        if backend is None:
            of_a_job = {"init_method": init_method, "timeout": timeout}
            for name, value in (given | {name: value for name, value in of_a_job.items() if value is not None}).items():
                _refuse("Parallel", f"{name} is {value}, and without a backend nothing is started")
            _core.rank()  # NotInitialized where this process was launched and has not joined
        elif nproc_per_node is None:
            for name, value in given.items():
                print(f"unisono: Parallel: {name} is {value}, but without nproc_per_node no processes are started; it has no effect", file=sys.stderr)
        elif (nnodes or 1) > 1 and node_rank is None:
            _refuse("Parallel", f"with {nnodes} nodes, node_rank must be given")

    def _spawns(self):
        return self._backend is not None and "nproc_per_node" in self._given

    def _say(self, text):
        if self._given.get("node_rank", 0) == 0 if self._spawns() else _core.rank() == 0:
            sys.stderr.write(f"[unisono] {text}\n")

    def __enter__(self):
        if self._spawns():
            self._say(f"Prepared to start processes with backend: '{self._backend}'")
        elif self._backend is not None:
            initialize(self._backend, init_method=self._init_method or "env://", timeout=self._timeout)
            self._joined = True
            self._say(f"Initialized the process group with backend: '{self._backend}'")
        return self

    def __exit__(self, type, error, traceback):
        if not self._joined:
            return
        self._joined = False
        failure = error and _ending.describe(error)  # sys.exit() is none
        if failure:
            _core._leave_because(failure)
            return
        is_first = _core.rank() == 0
        _core.finalize()
        if is_first:
            sys.stderr.write(f"[unisono] Finalized the process group with backend: '{self._backend}'\n")

    def run(self, function, *args):
        """Runs a function in every process.

        Parameters
        ----------
        function : callable
            Called as function(local_rank, *args).
        *args : object
            Further arguments.

        Returns
        -------
        list of object
            The results of all processes that were started here, or of this one.

        Raises
        ------
        LaunchFailed
            If a process that was started failed: see `spawn`.
        """
        if self._backend is not None and not self._spawns() and not self._joined:
            with self:
                return self.run(function, *args)
        n = self._given["nproc_per_node"] if self._spawns() else _core.world_size()
        self._say(f"{'Start' if self._spawns() else 'Run'} '{getattr(function, '__qualname__', function)}' in {n} processes")
        if self._spawns():
            results = spawn(function, *args, backend=self._backend, init_method=self._init_method, timeout=self._timeout, **self._given)
        else:
            results = [function(_core.local_rank(), *args)]
        self._say("End of run")
        return results


def run_threads(ranks, function, *args):
    """Calls a function in ranks that are threads of this process. For tests.

    Inside, world() is theirs, and everything works as among processes. The interpreter runs one of
    them at a time. An exception of a rank reaches the others as PeerFailed.

    Parameters
    ----------
    ranks : int
        The number of ranks.
    function : callable
        Called as function(rank, *args) in each of them.
    *args : object
        Further arguments.

    Returns
    -------
    list of object
        The results of the ranks, in rank order.

    Raises
    ------
    InvalidArgument
        If there are no ranks.
    Exception
        The exception of a rank, as it was raised.

    Examples
    --------
    Alone:

    >>> unisono.run_threads(3, lambda rank: unisono.all_reduce(rank))
    [3, 3, 3]
    """
    return _core._run_threads(ranks, lambda rank: function(rank, *args))
