"""allgather, broadcast, alltoall, barrier and join.

In all of them `name` is how the ranks find each other's calls: without one they are numbered, and must come in the same order on all ranks.
HorovodInternalError: the calls of a name do not fit together, or a rank was lost. It is a ValueError as well before `init`, on a process set that
this rank is not in, for a root that is not in it, or a name that is still in use.
"""

import torch

from ._execute import parts_of
from ._process_sets import global_process_set
from ._requests import Call, InvalidCall, Request
from ._worker import handle_of, synchronize, wait


def submit(call, tensors, outputs, name, process_set, single=True, splits=None):
    """Hands a call to the worker of the process set."""
    if any(not isinstance(tensor, torch.Tensor) for tensor in tensors):
        raise ValueError(f"{call.kind} takes tensors")
    devices = {tensor.device.type for tensor in tensors}
    if len(devices) > 1:
        raise ValueError(f"the tensors of one call lie on one kind of device, and not on {', '.join(sorted(devices))}")
    worker = process_set._working()
    call.dtypes = [str(tensor.dtype).removeprefix("torch.") for tensor in tensors]
    call.shapes = [list(tensor.shape) for tensor in tensors]
    call.device = devices.pop() if devices else "cpu"
    plain = {id(tensor): tensor.detach() for tensor in [*tensors, *outputs]}
    request = Request("", call, [plain[id(tensor)] for tensor in tensors], [plain[id(tensor)] for tensor in outputs], single)
    request.given, request.splits = list(outputs) or None, splits
    if call.device == "cuda":
        request.cuda_event = torch.cuda.Event()
        request.cuda_event.record(torch.cuda.current_stream(tensors[0].device))
    return worker.submit(call.kind, name, request)


def _all_gather(tensors, name, process_set, single):
    tensors = [tensor.reshape(1) if isinstance(tensor, torch.Tensor) and tensor.dim() == 0 else tensor for tensor in tensors]
    return submit(Call("allgather"), tensors, [], name, process_set, single)


def allgather_async(tensor, name=None, process_set=global_process_set):
    """As `allgather`, without waiting and without gradients: returns a handle for `poll` and `synchronize`."""
    return handle_of(_all_gather([tensor], name, process_set, True))


def allgather(tensor, name=None, process_set=global_process_set):
    """Every rank's tensor, one after another along the first dimension, which may differ between ranks; the other dimensions and the dtype are the same.

    A tensor without dimensions counts as one row. Gradients flow back: each rank gets the average of all ranks' gradients for its rows, as in Horovod.
    """
    return _AllGather.apply((name, process_set), tensor)[0]


def grouped_allgather_async(tensors, name=None, process_set=global_process_set):
    """As `grouped_allgather`, without waiting and without gradients: returns one handle for all."""
    return handle_of(_all_gather(list(tensors), name, process_set, False))


def grouped_allgather(tensors, name=None, process_set=global_process_set):
    """`allgather` of several tensors in one step: a list of new tensors."""
    return list(_AllGather.apply((name, process_set), *tensors))


class _AllGather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, how, *tensors):
        ctx.how, ctx.shapes = how, [tensor.shape for tensor in tensors]
        return tuple(wait(_all_gather(list(tensors), *how, False)))

    @staticmethod
    def backward(ctx, *gradients):
        from ._reducing import grouped_allreduce

        name, process_set = ctx.how
        rows = torch.tensor([[shape[0] if shape else 1 for shape in ctx.shapes]])
        before = allgather(rows, None if name is None else name + ".rows", process_set)[: process_set.rank()].sum(0).tolist()
        averages = grouped_allreduce(gradients, name=None if name is None else name + ".gradient", process_set=process_set)
        mine = [average[at : at + own].reshape(shape) for average, at, own, shape in zip(averages, before, rows[0].tolist(), ctx.shapes)]
        return None, *mine


def _broadcast(tensor, output, root_rank, name, process_set):
    process_set._working()
    if root_rank not in process_set.ranks:
        raise InvalidCall(f"root_rank={root_rank} is not in {process_set}")
    return submit(Call("broadcast", root=process_set.ranks.index(root_rank)), [tensor], [output], name, process_set)


def broadcast_async(tensor, root_rank, name=None, process_set=global_process_set):
    """As `broadcast`, without waiting and without gradients: returns a handle."""
    output = torch.empty_like(tensor, memory_format=torch.contiguous_format, requires_grad=False)
    return handle_of(_broadcast(tensor, output, root_rank, name, process_set))


def broadcast_async_(tensor, root_rank, name=None, process_set=global_process_set):
    """As `broadcast_async`, with the result in `tensor`."""
    return handle_of(_broadcast(tensor, tensor, root_rank, name, process_set))


def broadcast_(tensor, root_rank, name=None, process_set=global_process_set):
    """As `broadcast`, with the result in `tensor`, which is returned; without gradients."""
    return synchronize(broadcast_async_(tensor, root_rank, name, process_set))


def broadcast(tensor, root_rank, name=None, process_set=global_process_set):
    """The tensor of rank `root_rank` (its rank in the job, also in a process set) on all ranks: a new tensor.

    Gradients flow back: the root gets the average of all ranks' gradients, and the others 0. ValueError: a root that is not in the process set.
    """
    return _Broadcast.apply(tensor, root_rank, name, process_set)


class _Broadcast(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, root_rank, name, process_set):
        ctx.how = root_rank, name, process_set
        output = torch.empty_like(tensor, memory_format=torch.contiguous_format, requires_grad=False)
        return wait(_broadcast(tensor, output, root_rank, name, process_set))

    @staticmethod
    def backward(ctx, gradient):
        from ._reducing import allreduce

        root_rank, name, process_set = ctx.how
        average = allreduce(gradient, name=None if name is None else name + ".gradient", process_set=process_set)
        is_root = process_set.ranks[process_set.rank()] == root_rank
        return average if is_root else torch.zeros_like(average), None, None, None


def _all_to_all(tensor, splits, name, process_set):
    size = process_set._working().size
    if not isinstance(tensor, torch.Tensor) or tensor.dim() == 0:
        raise InvalidCall("alltoall takes a tensor with a first dimension to be divided")
    rows = _even(tensor, size) if splits is None else [int(n) for n in splits]
    if len(rows) != size or min(rows) < 0 or sum(rows) != len(tensor):
        raise InvalidCall(f"splits has a number of rows for each of {size} ranks, {len(tensor)} together, and not {rows}")
    return submit(Call("alltoall", splits=rows), [tensor], [], name, process_set, splits=splits)


def _even(tensor, size):
    if len(tensor) % size:
        raise InvalidCall(f"{len(tensor)} rows cannot be divided among {size} ranks: give splits")
    return parts_of(len(tensor), size)


def alltoall_async(tensor, splits=None, name=None, process_set=global_process_set):
    """As `alltoall`, without waiting and without gradients: returns a handle."""
    return handle_of(_all_to_all(tensor, splits, name, process_set))


def alltoall(tensor, splits=None, name=None, process_set=global_process_set):
    """Part r of the tensor goes to rank r: a new tensor of the parts that all ranks had for this one, in the order of the ranks.

    The first dimension is divided: evenly, or as `splits` (integers, one for each rank) says, and then the result is `(output, received_splits)`. The other
    dimensions and the dtype are the same on all ranks. Gradients flow back. ValueError: rows that cannot be divided evenly, or splits that do not fit.
    """
    output, received = _AllToAll.apply(tensor, splits, name, process_set)
    return output if splits is None else (output, received)


class _AllToAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, splits, name, process_set):
        if splits is None and isinstance(tensor, torch.Tensor) and tensor.dim():
            splits = _even(tensor, process_set._working().size)
        output, received = wait(_all_to_all(tensor, splits, name, process_set))
        ctx.how = received, name, process_set
        ctx.mark_non_differentiable(received)
        return output, received

    @staticmethod
    def backward(ctx, gradient, _):
        received, name, process_set = ctx.how
        return wait(_all_to_all(gradient, received, None if name is None else name + ".gradient", process_set))[0], None, None, None


def barrier(process_set=global_process_set):
    """Returns when every rank of the process set has called it, or has joined."""
    wait(submit(Call("barrier"), [], [], None, process_set))


def join(device=-1):
    """Says that this rank has no more data, and returns when all ranks have said so: the rank that joined last.

    Meanwhile the others go on. In their allreduces this rank counts as 0 (Sum, Average, Adasum), or as nothing (Min, Max, Product). Their other calls are
    errors for all of them, as in Horovod: this rank's part would be missing.
    device: the number of this rank's GPU, used if the others' tensors lie on GPUs; -1: the current one.
    """
    worker = global_process_set._working()
    if device >= 0 and torch.cuda.is_available():
        torch.cuda.set_device(device)
    return wait(worker.join(Request("join", Call("join"), [], [])))
