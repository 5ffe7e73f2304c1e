"""The computation models: a process that is alone, torch.distributed over unisono, XLA's devices, and Horovod's functions over unisono."""

from .base import _SerialModel
from .horovod import has_hvd_support
from .native import has_native_dist_support
from .xla import has_xla_support


def setup_available_computation_models():
    """The classes of the models that work here."""
    models = [_SerialModel]
    if has_native_dist_support:
        from .native import _NativeDistModel

        models.append(_NativeDistModel)
    if has_xla_support:
        from .xla import _XlaDistModel

        models.append(_XlaDistModel)
    if has_hvd_support:
        from .horovod import _HorovodDistModel

        models.append(_HorovodDistModel)
    return tuple(models)


registered_computation_models = setup_available_computation_models()


def model_of(backend):
    """The class of the models that serve `backend`, None if none does."""
    return next((kind for kind in registered_computation_models if kind.serves(backend)), None)


def why_not(backend):
    """The missing part that an error names, for a backend that is known and not available here; "" for any other."""
    from . import native, xla

    if backend == xla.XLA_TPU:
        return f". '{backend}' needs torch_xla, and {xla.why_not}"
    if backend == native.MPI:
        return f". '{backend}' needs unisono's engine of that name: `unisono info` says what is missing"
    return ""
