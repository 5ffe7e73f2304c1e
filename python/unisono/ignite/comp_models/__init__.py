"""The computation models: a process that is alone, and torch.distributed over unisono."""

from .base import _SerialModel
from .horovod import has_hvd_support
from .native import has_native_dist_support
from .xla import has_xla_support


def setup_available_computation_models():
    """The classes of the models that work here."""
    if not has_native_dist_support:
        return (_SerialModel,)
    from .native import _NativeDistModel

    return _SerialModel, _NativeDistModel


registered_computation_models = setup_available_computation_models()
