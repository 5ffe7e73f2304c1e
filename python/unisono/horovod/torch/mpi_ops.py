"""The names of horovod.torch.mpi_ops, for programs that import it."""

from . import *  # noqa: F401, F403
