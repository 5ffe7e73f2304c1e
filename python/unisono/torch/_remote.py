"""The code that makes PyTorch know the device "remote" (remote.py), when there is a controller."""

import ctypes
import threading

from .. import _serving
from . import _extension

_NAME = "remote"
_installing = threading.Lock()
_prepare = None  # kept, because the extension calls it


def install(may_compile=True):
    """Makes the device "remote" known, once. Does nothing in a program that has another backend of its own, of which `check` complains; and without
    `may_compile` where the package has no extension for this PyTorch."""
    global _prepare
    import torch

    with _installing:
        if _prepare is not None or _other_backend(torch) or not (may_compile or _extension.is_at_hand(torch)):
            return
        library = _extension.load()
        torch.ops.unisono.remote_begin()
        torch.utils.rename_privateuse1_backend(_NAME)
        from . import remote

        torch._register_device_module(_NAME, remote)
        torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
        _teach_pickling(torch)
        _prepare = ctypes.CFUNCTYPE(None, ctypes.c_int)(_prepare_worker)
        library.unisono_torch_prepare_workers.restype = None
        library.unisono_torch_prepare_workers(_prepare)


def check():
    """Raises RuntimeError in a program that has another backend in the place of this one."""
    import torch

    other = _other_backend(torch)
    if other:
        raise RuntimeError(f"remote tensors need the place that PyTorch has for one backend of a program, PrivateUse1, and {other!r} has it")


def placed(tensor, worker):
    """A copy of a tensor on a worker."""
    install()
    check()
    return tensor.to(f"{_NAME}:{worker}")


def placed_on_all(tensor, workers):
    """Copies of a tensor on so many workers."""
    copies = [placed(tensor, worker) for worker in range(workers)]
    from . import remote

    return remote.Tensors(copies)


def _other_backend(torch):
    name = torch._C._get_privateuse1_backend_name()
    return None if name in ("privateuseone", _NAME) else name


def _prepare_worker(worker):
    try:
        _serving.call_before_others(worker, _serving.serve_tensors)
    except Exception:  # the worker or the controller is gone: the command that follows says so
        pass


def _teach_pickling(torch):
    # In a call a remote tensor is the one that the worker has. torch.save, torch.load and copy.deepcopy tell storages apart by their pointers, of which these
    # have none, and copy them. A pickle has the elements.
    storages, reduce, reduce_storage = torch.UntypedStorage, torch.Tensor._reduce_ex_internal, torch.TypedStorage.__reduce__
    data_ptr, copy_ = storages.data_ptr, storages.copy_

    def _reduce_ex_internal(self, proto):
        if self.device.type != _NAME or not _serving.sending.is_under_way:
            return reduce(self, proto)
        return arrived, (bytes(torch.ops.unisono.remote_place_of(self.detach()).tolist()),)

    def number_of_storage(self):
        return self._cdata if self.device.type == _NAME else data_ptr(self)

    def copy_storage(self, source, non_blocking=None):
        if _NAME not in (self.device.type, source.device.type):
            return copy_(self, source, non_blocking)
        whole, given = (torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage) for storage in (self, source))
        whole.copy_(given, non_blocking=bool(non_blocking))
        return self

    def __reduce__(self):
        own = self._untyped_storage
        if own.device.type != _NAME:
            return reduce_storage(self)
        return moved, (torch.TypedStorage(wrap_storage=own.cpu(), dtype=self.dtype, _internal=True), str(own.device))

    torch.Tensor._reduce_ex_internal, torch.TypedStorage.__reduce__ = _reduce_ex_internal, __reduce__
    storages.data_ptr, storages.copy_ = number_of_storage, copy_storage


def moved(storage, device):
    """A storage of a pickle on its device."""
    import torch

    return torch.TypedStorage(wrap_storage=storage._untyped_storage.to(device=device), dtype=storage.dtype, _internal=True)


def arrived(place):
    """The tensor of this worker that a call names."""
    import torch

    _extension.load()
    return torch.ops.unisono.remote_tensor_at_place(torch.tensor(list(place), dtype=torch.uint8))
