"""Devices of tensors and of containers of tensors."""

from collections.abc import Iterable, Mapping

import torch

from . import _ranks


def get_comm_device(group=None):
    """The device on which the group's data travels: the current GPU with NCCL, otherwise the cpu. ValueError where this rank is not in the group."""
    backend = _ranks.get_backend(group)
    if backend is not None and "nccl" in backend and torch.cuda.is_available():
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")


def _is_sequence(data):
    return isinstance(data, Iterable) and not isinstance(data, (str, bytes)) and type(data).__module__ != "numpy"


def get_data_device(data):
    """The device of a tensor, or of all tensors in a (nested) sequence or dict.

    ValueError if they lie on several or there is none; TypeError if there is something else.
    """
    if isinstance(data, torch.Tensor):
        return data.device
    if not isinstance(data, Mapping) and not _is_sequence(data):
        raise TypeError(f"data should be a Tensor, sequence of tensor or dict, but got {data}")
    found = None
    for item in data.values() if isinstance(data, Mapping) else data:
        device = get_data_device(item)
        if found is not None and device != found:
            raise ValueError(f"device type in data should be consistent, but got {device} and {found}")
        found = device
    if found is None:
        raise ValueError("data should not be empty.")
    return found


def cast_data_device(data, device, out=None):
    """The tensors of `data` on `device`, in the same containers. A tensor that is there already is returned itself.

    `out`: as `data`; the values are copied into its tensors, too. TypeError if its type is another, it is a set, or a leaf is not a tensor;
    ValueError if lengths differ or a container is empty.
    """
    if out is not None:
        if type(data) is not type(out):
            raise TypeError(f"out should be the same type with data, but got data is {type(data)} and out is {type(out)}")
        if isinstance(out, (set, frozenset)):
            raise TypeError("out should not be a set")
    if isinstance(data, torch.Tensor):
        moved = data.to(device)
        if out is not None:
            out.copy_(moved)
        return moved
    if not isinstance(data, Mapping) and not _is_sequence(data):
        raise TypeError(f"data should be a Tensor, list of tensor or dict, but got {data}")
    keys, items = (list(data), list(data.values())) if isinstance(data, Mapping) else (None, list(data))
    if not items:
        raise ValueError("data should not be empty")
    outs = [None] * len(items)
    if out is not None:
        if len(out) != len(items):
            raise ValueError(f"length of data and out should be same, but got {len(items)} and {len(out)}")
        outs = [out[key] for key in keys] if keys is not None else list(out)
    items = [cast_data_device(item, device, target) for item, target in zip(items, outs)]
    if keys is not None:
        return type(data)(dict(zip(keys, items)))
    return type(data)(*items) if hasattr(data, "_fields") else type(data)(items)
