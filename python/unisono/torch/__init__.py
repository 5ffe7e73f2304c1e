"""The backend "unisono" of torch.distributed.

    import torch.distributed as dist
    import unisono.torch  # not needed where the package was installed by pip: then `import torch` finds it
    dist.init_process_group("unisono")

It serves tensors on the cpu, and on cuda where libunisono has its NCCL engine; "cpu:unisono,cuda:nccl" leaves the latter to PyTorch.
"""


# Defined before torch is imported, because torch loads this module as an extension (group torch.backends) and may find it half imported.
def register() -> None:
    """Makes the backend known to torch.distributed. Importing this module does it."""
    from torch import distributed

    if distributed.is_available() and "UNISONO" not in distributed.Backend._plugins:
        distributed.Backend.register_backend(BACKEND, create, extended_api=True, devices=["cpu", "cuda"])
        _teach_monitored_barrier(distributed)
        from . import _ending  # noqa: F401  (imported early, so that it is among the first to register for the end of the program)


def create(options, backend_options=None, *, name: str = "unisono"):
    """Makes a process group from torch.distributed's DistributedBackendOptions. `name` is its name in profilers."""
    _check_version()
    from . import _C, _ending

    _ending.watch()
    return _C.create(options, name, getattr(backend_options, "engine", "auto"))


BACKEND = "unisono"


def _check_version() -> None:
    # The version is checked before the extension is loaded, because loading it with another PyTorch would fail or misbehave.
    import torch

    from ._built_for import TORCH

    if torch.__version__.split("+")[0].split(".")[:2] != TORCH.split(".")[:2]:
        raise ImportError(f"unisono was built for PyTorch {TORCH}, and this is PyTorch {torch.__version__}: install it again (pip install .)")


def _teach_monitored_barrier(distributed) -> None:
    # monitored_barrier is the only function of torch.distributed that tests for a backend by name.
    from datetime import timedelta
    from functools import wraps

    c10d = distributed.distributed_c10d
    original = c10d.monitored_barrier

    @wraps(original)
    def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
        if c10d._rank_not_in_group(group) or distributed.get_backend(group) != BACKEND:
            return original(group, timeout, wait_all_ranks)
        if timeout is None:
            timeout = c10d._get_default_timeout(BACKEND)
        elif isinstance(timeout, (int, float)):
            timeout = timedelta(seconds=timeout)
        c10d._check_valid_timeout(timeout)
        return (group or c10d._get_default_group()).monitored_barrier(timeout, wait_all_ranks=wait_all_ranks)

    c10d.monitored_barrier = distributed.monitored_barrier = monitored_barrier


register()
