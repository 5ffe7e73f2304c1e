"""allreduce and reducescatter.

In all of them `name` is how the ranks find each other's calls: without one they are numbered, and must come in the same order on all ranks. The tensors have
the same shape and dtype on all ranks, and any strides.

HorovodInternalError: they do not, or a rank was lost; and, as a ValueError as well, before `init`, on a process set that this rank is not in, or a name that
is still in use. ValueError: both op and average.
"""

import warnings

import torch

from . import _requests
from ._moving import submit
from ._process_sets import global_process_set
from ._requests import Adasum, Average, Call, InvalidCall, Sum
from ._worker import handle_of, synchronize, wait
from .compression import Compression


def _operation(op, average):
    if op is not None and average is not None:
        raise ValueError("The op parameter supersedes average. Please provide only one of them.")
    if average is not None:
        warnings.warn("Parameter `average` has been replaced with `op`", DeprecationWarning, stacklevel=3)
        return Average if average else Sum
    op = Average if op is None else op
    if op not in range(len(_requests.OPERATIONS)):
        raise ValueError(f"op={op} is none of {', '.join(_requests.OPERATIONS)}")
    return op


def _reduce(tensors, outputs, name, op, prescale, postscale, process_set, single):
    if op == Adasum and any(not tensor.is_floating_point() for tensor in tensors):
        raise ValueError("Adasum is for floating-point tensors")
    call = Call("allreduce", op=op, prescale=float(prescale), postscale=float(postscale))
    return submit(call, tensors, outputs, name, process_set, single)


def _new(tensors):
    return [torch.empty_like(tensor, memory_format=torch.contiguous_format, requires_grad=False) for tensor in tensors]


def allreduce_async(tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set):
    """As `allreduce`, without waiting and without gradients: returns a handle for `poll` and `synchronize`. Do not change `tensor` until it is done."""
    op = _operation(op, average)
    return handle_of(_reduce([tensor], _new([tensor]), name, op, prescale_factor, postscale_factor, process_set, True))


def allreduce_async_(tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set):
    """As `allreduce_async`, with the result in `tensor`."""
    return handle_of(_reduce([tensor], [tensor], name, _operation(op, average), prescale_factor, postscale_factor, process_set, True))


def allreduce_(tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set):
    """As `allreduce`, with the result in `tensor`, which is returned; without gradients."""
    return synchronize(allreduce_async_(tensor, average, name, op, prescale_factor, postscale_factor, process_set))


def allreduce(
    tensor, average=None, name=None, compression=Compression.none, op=None, prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set
):
    """The reduction of every rank's tensor, on all of them: a new tensor of its shape and dtype.

    op: Average (the default), Sum, Adasum, Min, Max, Product. Every rank of the set counts for the average, also one that has joined; that of integers is
    truncated toward zero. The tensor is multiplied by prescale_factor before and by postscale_factor after. Gradients flow back through Average, Sum and
    Adasum as the same reduction of the gradients.
    """
    tensor, context = compression.compress(tensor)
    (result,) = _AllReduce.apply((name, _operation(op, average), prescale_factor, postscale_factor, process_set), tensor)
    return compression.decompress(result, context)


def grouped_allreduce_async(tensors, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set):
    """As `grouped_allreduce`, without waiting and without gradients: returns one handle for all."""
    op, tensors = _operation(op, average), list(tensors)
    return handle_of(_reduce(tensors, _new(tensors), name, op, prescale_factor, postscale_factor, process_set, False))


def grouped_allreduce_async_(tensors, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set):
    """As `grouped_allreduce_async`, with the results in `tensors`."""
    tensors = list(tensors)
    return handle_of(_reduce(tensors, list(tensors), name, _operation(op, average), prescale_factor, postscale_factor, process_set, False))


def grouped_allreduce_(tensors, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set):
    """As `grouped_allreduce`, with the results in `tensors`."""
    return synchronize(grouped_allreduce_async_(tensors, average, name, op, prescale_factor, postscale_factor, process_set))


def grouped_allreduce(
    tensors, average=None, name=None, compression=Compression.none, op=None, prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set
):
    """`allreduce` of several tensors in one step, which begins when all ranks have given all of them: a list of new tensors."""
    tensors, contexts = _compressed(tensors, compression)
    results = _AllReduce.apply((name, _operation(op, average), prescale_factor, postscale_factor, process_set), *tensors)
    return [compression.decompress(result, context) for result, context in zip(results, contexts)]


def _compressed(tensors, compression):
    pairs = [compression.compress(tensor) for tensor in tensors]
    return [tensor for tensor, _ in pairs], [context for _, context in pairs]


class _AllReduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, how, *tensors):
        ctx.how = how
        return tuple(wait(_reduce(list(tensors), _new(tensors), *how, False)))

    @staticmethod
    def backward(ctx, *gradients):
        name, op, prescale, postscale, process_set = ctx.how
        if op not in (Average, Sum, Adasum):
            raise NotImplementedError(f"allreduce with {_requests.OPERATIONS[op]} has no gradient")
        name = None if name is None else name + ".gradient"
        return None, *_AllReduce.apply((name, op, prescale, postscale, process_set), *gradients)


def sparse_allreduce_async(tensor, name, op, process_set=global_process_set):
    """The sum or the average of sparse COO tensors, which may have different indices on each rank. Returns a function that waits for it and returns the result.

    op: Average or Sum.
    """
    if op not in (Average, Sum):
        raise ValueError("sparse tensors are summed or averaged")
    from ._moving import allgather_async

    indices = allgather_async(tensor._indices().t().contiguous(), f"{name}.indices", process_set)
    values = allgather_async(tensor._values(), f"{name}.values", process_set)

    def result():
        all_values, all_indices = synchronize(values), synchronize(indices)
        if op == Average:
            all_values = all_values / process_set.size()
        return torch.sparse_coo_tensor(all_indices.t(), all_values, tensor.shape, check_invariants=False)

    return result


def _reduce_scatter(tensors, name, op, process_set, prescale, postscale, single):
    if op not in (Average, Sum):
        raise InvalidCall("reducescatter is for Average and Sum")
    if any(tensor.dim() == 0 for tensor in tensors):
        raise InvalidCall("reducescatter needs tensors with a first dimension to be divided")
    return submit(Call("reducescatter", op=op, prescale=float(prescale), postscale=float(postscale)), tensors, [], name, process_set, single)


def reducescatter_async(tensor, name=None, op=Average, process_set=global_process_set, prescale_factor=1.0, postscale_factor=1.0):
    """As `reducescatter`, without waiting and without gradients: returns a handle."""
    return handle_of(_reduce_scatter([tensor], name, op, process_set, prescale_factor, postscale_factor, True))


def reducescatter(
    tensor, name=None, compression=Compression.none, op=Average, process_set=global_process_set, prescale_factor=1.0, postscale_factor=1.0
):
    """This rank's part of the reduction over all ranks: a new tensor.

    The first dimension is divided; if that is uneven, the first ranks get one more. op: Average or Sum. Gradients flow back.
    """
    tensor, context = compression.compress(tensor)
    (result,) = _ReduceScatter.apply((name, op, process_set, prescale_factor, postscale_factor), tensor)
    return compression.decompress(result, context)


def grouped_reducescatter_async(tensors, name=None, op=Average, process_set=global_process_set, prescale_factor=1.0, postscale_factor=1.0):
    """As `grouped_reducescatter`, without waiting and without gradients: returns one handle for all."""
    return handle_of(_reduce_scatter(list(tensors), name, op, process_set, prescale_factor, postscale_factor, False))


def grouped_reducescatter(
    tensors, name=None, compression=Compression.none, op=Average, process_set=global_process_set, prescale_factor=1.0, postscale_factor=1.0
):
    """`reducescatter` of several tensors in one step: a list of new tensors."""
    tensors, contexts = _compressed(tensors, compression)
    results = _ReduceScatter.apply((name, op, process_set, prescale_factor, postscale_factor), *tensors)
    return [compression.decompress(result, context) for result, context in zip(results, contexts)]


class _ReduceScatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, how, *tensors):
        ctx.how = how
        return tuple(wait(_reduce_scatter(list(tensors), *how, False)))

    @staticmethod
    def backward(ctx, *gradients):
        from ._moving import grouped_allgather

        name, op, process_set, prescale, postscale = ctx.how
        factor = prescale * postscale * (process_set.size() if op == Sum else 1)
        name = None if name is None else name + ".gradient"
        return None, *grouped_allgather([gradient * factor for gradient in gradients], name, process_set)
