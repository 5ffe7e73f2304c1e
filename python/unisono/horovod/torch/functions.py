"""Parameters, optimizer states and objects."""

import torch

from ... import _pickles
from ._moving import allgather, broadcast_, broadcast_async_
from ._process_sets import global_process_set
from ._worker import synchronize


def broadcast_parameters(params, root_rank):
    """Replaces parameters or a state dict on every rank by those of rank `root_rank`, in place. All ranks call it, with the same names and shapes.

    params: a dict (`model.state_dict()`) or a sequence of (name, tensor) (`model.named_parameters()`); other entries than tensors are left out.
    ValueError: anything else.
    """
    if isinstance(params, dict):
        pairs = sorted(params.items())
    else:
        pairs = list(params) if hasattr(params, "__iter__") else [None]
    if any(not isinstance(pair, tuple) or len(pair) != 2 for pair in pairs):
        raise ValueError(f"invalid params of type: {type(params)}")
    tensors = [(name, value) for name, value in pairs if isinstance(value, torch.Tensor)]
    for handle in [broadcast_async_(value, root_rank, f"parameters.{name}") for name, value in tensors]:
        synchronize(handle)


def broadcast_optimizer_state(optimizer, root_rank, model=None):
    """Gives every rank the state of rank `root_rank`'s optimizer, with its options (learning rate, …). All ranks call it.

    The others need no state before; gradients that are missing while there is none become 0, as in Horovod. model is accepted and not needed.
    ValueError: LBFGS, as in Horovod.
    """
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError("cannot broadcast torch.optim.LBFGS state")
    from ._job import rank

    state = optimizer.state_dict()
    if not state["state"]:
        for p in (p for group in optimizer.param_groups for p in group["params"]):
            if p.requires_grad and p.grad is None:
                p.grad = torch.zeros_like(p)
    tensors = []
    skeleton = broadcast_object(_without_tensors(state, tensors) if rank() == root_rank else None, root_rank, "optimizer")
    if rank() != root_rank:
        tensors = []
        state = _with_tensors(skeleton, tensors)
    for i, tensor in enumerate(tensors):
        # The others' tensors are on the cpu until load_state_dict puts them where the parameters are.
        moved = broadcast_(tensor.cpu(), root_rank, f"optimizer.{i}")
        tensor.copy_(moved)
    if rank() != root_rank:
        optimizer.load_state_dict(state)


class _Place:
    """Stands for a tensor that travels by itself."""

    def __init__(self, tensor):
        self.shape, self.dtype = tuple(tensor.shape), tensor.dtype


def _mapped(value, kind, function):
    if isinstance(value, kind):
        return function(value)
    if isinstance(value, dict):
        return {key: _mapped(item, kind, function) for key, item in value.items()}
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(_mapped(item, kind, function) for item in value)
    return value


def _without_tensors(state, tensors):
    return _mapped(state, torch.Tensor, lambda tensor: (tensors.append(tensor), _Place(tensor))[1])


def _with_tensors(skeleton, tensors):
    return _mapped(skeleton, _Place, lambda place: (tensors.append(torch.empty(place.shape, dtype=place.dtype)), tensors[-1])[1])


def broadcast_object(obj, root_rank=0, name=None, process_set=global_process_set):
    """The object of rank `root_rank` (its rank in the job) on every rank; on the root the object itself.

    It travels by cloudpickle if that is installed on the root, otherwise by pickle. If it cannot be written, the root raises why, and the others
    ValueError.
    """
    name = name or "object"
    from ._job import rank

    is_root = rank() == root_rank
    data, error = _written("broadcast_object", obj) if is_root else (b"", None)
    head = torch.tensor([len(data), error is not None])
    broadcast_(head, root_rank, f"{name}.length", process_set)
    length, has_failed = head.tolist()
    data = torch.frombuffer(bytearray(data), dtype=torch.uint8) if is_root else torch.empty(length, dtype=torch.uint8)
    broadcast_(data, root_rank, f"{name}.data", process_set)
    data = b"" if is_root and not has_failed else data.numpy().tobytes()
    _pickles.check_all("broadcast_object", {root_rank: (data, has_failed)}, error)
    return obj if is_root else _pickles.loads("broadcast_object", data)


def allgather_object(obj, name=None):
    """A list of every rank's object, in the order of the ranks. They travel as those of broadcast_object, and fail as those."""
    name = name or "object"
    data, error = _written("allgather_object", obj)
    heads = allgather(torch.tensor([[len(data), error is not None]]), f"{name}.length")
    lengths, failed = heads[:, 0].tolist(), heads[:, 1].tolist()
    parts = [part.numpy().tobytes() for part in allgather(torch.frombuffer(bytearray(data), dtype=torch.uint8), f"{name}.data").split(lengths)]
    return _pickles.loads_all("allgather_object", list(zip(parts, failed)), error)


def _written(operation, obj):
    try:
        import cloudpickle as module
    except ImportError:
        import pickle as module
    return _pickles.dumps(operation, obj, module)
