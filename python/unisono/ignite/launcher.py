"""Parallel: one spelling for a program that may run alone, under a launcher, or start its processes itself."""

import warnings

from .. import _ending
from . import utils as idist
from ._logging import rank_logger

__all__ = ["Parallel"]


class Parallel:
    """A scope in which `run` calls a function in every process.

        with idist.Parallel(backend="gloo", nproc_per_node=4) as parallel:    # without nproc_per_node: in the job that a launcher started
            parallel.run(training, config, learning_rate=0.1)

    Without a backend: in this process. With one: in the job that a launcher (or init_method) names, which the scope joins and leaves. With nproc_per_node,
    too: in processes that run starts; for several nodes with nnodes, node_rank, and master_addr with master_port or init_method. spawn_kwargs: of spawn, of
    which timeout, pg_options and others of init_process_group hold in the job of a launcher, too; start_method, join and daemon then have no effect, with a
    warning. An exception that leaves the scope is told to the other ranks, which do not wait.

    Raises TypeError for another argument; ValueError for one without the backend, or the processes, that it is for.
    """

    def __init__(
        self,
        backend=None,
        nproc_per_node=None,
        nnodes=None,
        node_rank=None,
        master_addr=None,
        master_port=None,
        init_method=None,
        **spawn_kwargs,
    ):
        self.backend, self.init_method = backend, init_method
        self._spawn_params, self._logger, self._joined = None, None, False
        from .comp_models import model_of, why_not

        given = {"nproc_per_node": nproc_per_node, "nnodes": nnodes, "node_rank": node_rank, "master_addr": master_addr, "master_port": master_port}
        of_processes = {name: value for name, value in spawn_kwargs.items() if name in ("start_method", "join", "daemon")}
        self._options = {name: value for name, value in spawn_kwargs.items() if name not in of_processes}
        # Without a backend, too, an argument of the wrong name is a TypeError.
        kind = model_of("unisono" if backend is None else backend)
        if kind is None:
            raise ValueError(f"Unknown backend '{backend}'. Available backends: {idist.available_backends()}{why_not(backend)}")
        kind.check_options("Parallel", self._options, starts_processes=nproc_per_node is not None)
        if backend is None:
            for name, value in (given | spawn_kwargs).items():
                if value is not None:
                    raise ValueError(f"If backend is None, argument '{name}' should be also None, but given {value}")
        if backend is not None and nproc_per_node is not None:
            self._spawn_params = self._checked(**given, init_method=init_method) | spawn_kwargs
        else:
            for name, value in (given | of_processes).items():
                if value is not None:
                    warnings.warn(f"Parallel: {name}={value} has no effect without nproc_per_node, which starts the processes", stacklevel=2)
        if self._spawn_params is not None:
            self._logger = rank_logger(f"{__name__}.Parallel", self._spawn_params["node_rank"])

    @staticmethod
    def _checked(nproc_per_node, nnodes, node_rank, master_addr, master_port, init_method):
        from ._spawn import check_nodes

        nnodes = 1 if nnodes is None else nnodes
        check_nodes(nproc_per_node, nnodes, node_rank)
        node_rank = node_rank or 0
        if nnodes > 1 and init_method is None and (master_addr is None or master_port is None):
            raise ValueError(
                "If number of nodes larger than one, arguments master_addr and master_port or init_method should be specified, "
                f"but given master_addr={master_addr}, master_port={master_port} and init_method={init_method}."
            )
        params = {"nproc_per_node": nproc_per_node, "nnodes": nnodes, "node_rank": node_rank}
        optional = {"master_addr": master_addr, "master_port": master_port, "init_method": init_method}
        return params | {name: value for name, value in optional.items() if value is not None}

    def run(self, func, *args, **kwargs):
        """Calls func(local_rank, *args, **kwargs) in every process, and returns what it returned: a list of those of this node, or of this process alone."""
        if self._spawn_params is not None:
            self._logger.info(f"Spawn function '{func}' in {self._spawn_params['nproc_per_node']} processes")
            results = idist.spawn(self.backend, func, args=args, kwargs_dict=kwargs, **self._spawn_params)
        else:
            if self._logger is None:
                self._logger = rank_logger(f"{__name__}.Parallel", idist.get_rank())
            self._logger.info(f"- Run '{func}' in {idist.get_world_size()} processes")
            results = [func(idist.get_local_rank(), *args, **kwargs)]
        self._logger.info("End of run")
        return results

    def __enter__(self):
        if self.backend is not None and self._spawn_params is None:
            idist.initialize(self.backend, init_method=self.init_method, **self._options)
            self._joined = True
            self._logger = rank_logger(f"{__name__}.Parallel", idist.get_rank())
            self._logger.info(f"Initialized processing group with backend: '{self.backend}'")
        elif self._spawn_params is not None:
            self._logger.info(f"Initialized distributed launcher with backend: '{self.backend}'")
            told = "\n\t".join(f"{name}: {value}" for name, value in self._spawn_params.items())
            self._logger.info(f"- Parameters to spawn processes: \n\t{told}")
        return self

    def __exit__(self, kind, error, traceback):
        if not self._joined:
            return
        self._joined = False
        if error is not None and _ending.describe(error):  # sys.exit() is no failure
            idist._abandon(error)
            return
        self._logger.info(f"Finalized processing group with backend: '{self.backend}'")
        idist.finalize()
