"""The types of remote tensors, which init_master_worker adds to the module: dist.FloatTensor(2, 3) makes a tensor on a worker."""

import torch as _torch


class _RemoteType(type):
    def __call__(cls, *arguments, device="remote:0"):
        given = arguments[0] if len(arguments) == 1 else None
        if isinstance(given, _torch.Tensor):
            return given.to(device, cls.dtype)
        if isinstance(given, (list, tuple)) and not isinstance(given, _torch.Size):
            return _torch.tensor(given, dtype=cls.dtype).to(device)
        return _torch.empty(given if isinstance(given, _torch.Size) else arguments or 0, dtype=cls.dtype, device=device)

    def __instancecheck__(cls, tensor):
        return isinstance(tensor, _torch.Tensor) and tensor.device.type == "remote" and tensor.dtype == cls.dtype


def _make(name, dtype):
    """Tensor and storage, which is a flat tensor, of a dtype."""
    common = {"dtype": dtype, "is_cuda": False, "is_distributed": True, "__module__": "unisono.torch2018"}
    storage = _RemoteType(f"{name}Storage", (), {**common, "__doc__": f"The elements of a {name}Tensor: a tensor with one axis."})
    of_tensors = {
        "__doc__": f"{name}Tensor(2, 3), of a list, or of another tensor: a tensor of {dtype} on a worker, the first one unless `device` says another.",
        "is_signed": staticmethod(lambda: dtype.is_signed),
        "storage_type": staticmethod(lambda: storage),
    }
    return _RemoteType(f"{name}Tensor", (), common | of_tensors), storage


DoubleTensor, DoubleStorage = _make("Double", _torch.float64)
FloatTensor, FloatStorage = _make("Float", _torch.float32)
LongTensor, LongStorage = _make("Long", _torch.int64)
IntTensor, IntStorage = _make("Int", _torch.int32)
ShortTensor, ShortStorage = _make("Short", _torch.int16)
CharTensor, CharStorage = _make("Char", _torch.int8)
ByteTensor, ByteStorage = _make("Byte", _torch.uint8)
