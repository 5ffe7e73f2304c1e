"""The names of `ignite.distributed`, over the backend "unisono" of torch.distributed.

    import unisono.ignite as idist       # was: import ignite.distributed as idist

    with idist.Parallel(backend="gloo", nproc_per_node=4) as parallel:
        parallel.run(training, config)

Modules that import the original themselves, pytorch-ignite's own among them, get this one after

    unisono.ignite.install()

Needs PyTorch and unisono-torch, not pytorch-ignite. docs/coming-from/ignite.md lists what differs from the original.
"""

from .auto import *
from .comp_models import native, xla
from .launcher import Parallel
from .utils import *
from ._install import install
