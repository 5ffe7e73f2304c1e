"""The work of a ready request. All ranks of the process set are here with the same list, so that collectives of torch.distributed may be called in
its order."""

import math

import torch
from torch import distributed

from . import _adasum
from ._requests import Adasum, Average, Max, Min, Product, Sum, dtype_of, elements

# PyTorch 2.13 has new names for these.
all_gather_single = getattr(distributed, "all_gather_single", None) or distributed.all_gather_into_tensor
reduce_scatter_single = getattr(distributed, "reduce_scatter_single", None) or distributed.reduce_scatter_tensor

FUSED = 64 << 20  # the most bytes of tensors that are reduced in one call

_OPERATIONS = {
    Average: distributed.ReduceOp.SUM,
    Sum: distributed.ReduceOp.SUM,
    Min: distributed.ReduceOp.MIN,
    Max: distributed.ReduceOp.MAX,
    Product: distributed.ReduceOp.PRODUCT,
}


class Executor:
    def __init__(self, group):
        self.group = group
        self.rank, self.size = distributed.get_rank(group), distributed.get_world_size(group)

    def batches(self, parts):
        """Lists of (request or None, {rank: Call}) that are done together: reductions that differ in their tensors only are fused."""
        batch, key, size = [], None, 0
        for part in parts:
            call = next(iter(part[1].values()))
            fusible = call.kind == "allreduce" and call.op != Adasum
            own_key = (call.op, call.prescale, call.postscale, call.device) if fusible else None
            bytes_ = 8 * elements(call)
            if batch and (own_key is None or own_key != key or size + bytes_ > FUSED):
                yield batch
                batch, size = [], 0
            batch.append(part)
            key, size = own_key, size + bytes_
        if batch:
            yield batch

    def execute(self, batch):
        """A list of tensors for each part, or None. A part without a request is one that this rank has joined before."""
        call = next(iter(batch[0][1].values()))
        requests = [request for request, _ in batch if request is not None]
        for request in requests:
            if request.cuda_event is not None:
                torch.cuda.set_device(request.tensors[0].device)
                torch.cuda.current_stream().wait_event(request.cuda_event)
        if call.kind == "barrier":
            results = [[None]]
        elif call.kind == "allreduce":
            results = self._all_reduce(batch, call)
        else:
            request, calls = batch[0]
            results = [getattr(self, "_" + call.kind)(request, calls)]
        if call.device == "cuda":
            torch.cuda.current_stream().synchronize()
        return results

    # --- reductions

    def _all_reduce(self, batch, call):
        inputs, outputs = [], []
        for request, calls in batch:
            if request is None:
                theirs = next(iter(calls.values()))
                inputs += [_identity(shape, dtype_of(dtype), theirs) for shape, dtype in zip(theirs.shapes, theirs.dtypes)]
                outputs += [None] * len(theirs.shapes)
            else:
                inputs += request.tensors
                outputs += request.outputs
        reduced = self._adasum_each(inputs, call) if call.op == Adasum else self._reduce_fused(inputs, outputs, call)
        for output, tensor in zip(outputs, reduced):
            if output is not None and output is not tensor:
                output.copy_(tensor)
        return [None if request is None else list(request.outputs) for request, _ in batch]

    def _adasum_each(self, inputs, call):
        results = []
        for x in inputs:
            flat = _scaled(x.detach().clone().contiguous().view(-1), call.prescale)
            results.append(_scaled(_adasum.reduce(flat, self.group), call.postscale).view(x.shape))
        return results

    def _reduce_fused(self, inputs, outputs, call):
        results = [None] * len(inputs)
        kinds = {}
        for i, x in enumerate(inputs):
            kinds.setdefault(x.dtype, []).append(i)
        for indices in kinds.values():
            i = indices[0]
            if len(indices) == 1 and outputs[i] is not None and outputs[i].is_contiguous():
                # A tensor by itself is reduced where its result belongs.
                results[i] = outputs[i] if outputs[i] is inputs[i] else outputs[i].copy_(inputs[i])
                self._reduced(results[i].view(-1), call)
                continue
            flat = torch.cat([inputs[i].reshape(-1) for i in indices])
            flat = self._reduced(flat, call)
            for i, piece in zip(indices, flat.split([inputs[i].numel() for i in indices])):
                results[i] = piece.view(inputs[i].shape)
        return results

    def _reduced(self, flat, call):
        flat = _scaled(flat, call.prescale)
        distributed.all_reduce(flat, _OPERATIONS[call.op], self.group)
        return _scaled(self._averaged(flat, call.op), call.postscale)

    def _averaged(self, x, op):
        if op != Average:
            return x
        return x.div_(self.size) if x.is_floating_point() or x.is_complex() else x.div_(self.size, rounding_mode="trunc")

    def _reducescatter(self, request, calls):
        call = calls[self.rank]
        results = []
        for x, shape in zip(request.tensors, call.shapes):
            rows = parts_of(shape[0], self.size)
            longest = max(rows)
            padded = x.new_zeros((self.size, longest, *shape[1:]))
            for part, piece in zip(padded, x.split(rows)):
                part[: len(piece)] = piece
            own = x.new_empty((longest, *shape[1:]))
            reduce_scatter_single(own.view(-1), _scaled(padded, call.prescale).view(-1), distributed.ReduceOp.SUM, self.group)
            results.append(_scaled(self._averaged(own, call.op), call.postscale)[: rows[self.rank]].clone())
        return results

    # --- movements

    def _allgather(self, request, calls):
        first = next(iter(calls.values()))
        results = []
        for i, shape in enumerate(first.shapes):
            rows = [calls[r].shapes[i][0] for r in range(self.size)]
            own = request.tensors[i].contiguous()
            whole = own.new_empty((sum(rows), *shape[1:]))
            pieces = whole.split(rows)
            if len(set(rows)) == 1:
                all_gather_single(whole.view(-1), own.view(-1), self.group)
            else:
                pieces[self.rank].copy_(own)
                works = [distributed.broadcast(p, group=self.group, group_src=r, async_op=True) for r, p in enumerate(pieces) if p.numel()]
                for work in works:
                    work.wait()
            results.append(whole)
        return results

    def _broadcast(self, request, calls):
        call = next(iter(calls.values()))
        x, output = request.tensors[0], request.outputs[0]
        moved = x.contiguous() if self.rank == call.root else torch.empty_like(x, memory_format=torch.contiguous_format)
        distributed.broadcast(moved, group=self.group, group_src=call.root)
        if not (self.rank == call.root and output is x):
            output.copy_(moved)
        return [output]

    def _alltoall(self, request, calls):
        x = request.tensors[0].contiguous()
        received = [calls[r].splits[self.rank] for r in range(self.size)]
        row = math.prod(x.shape[1:])
        output = x.new_empty((sum(received), *x.shape[1:]))
        ours = [n * row for n in calls[self.rank].splits]
        distributed.all_to_all_single(output.view(-1), x.view(-1), [n * row for n in received], ours, self.group)
        if request.splits is None:
            return [output]
        like = request.splits if isinstance(request.splits, torch.Tensor) else torch.empty(0, dtype=torch.int32)
        return [(output, like.new_tensor(received))]


def parts_of(rows, size):
    """How many rows each rank gets: equally many, and the first ranks one more where they cannot be divided evenly."""
    return [rows // size + (r < rows % size) for r in range(size)]


def _device(call):
    return torch.device(call.device)


def _scaled(x, factor):
    if factor == 1.0:
        return x
    return x.mul_(factor) if x.is_floating_point() or x.is_complex() else x.copy_((x.double() * factor).trunc())


def _identity(shape, dtype, call):
    # What a rank that has joined contributes: 0, or what leaves a minimum, a maximum or a product as it is.
    if call.op == Product:
        return torch.full(shape, 1 / call.prescale if dtype.is_floating_point else 1, dtype=dtype, device=_device(call))
    if call.op not in (Min, Max):
        return torch.zeros(shape, dtype=dtype, device=_device(call))
    if dtype == torch.bool:
        return torch.full(shape, call.op == Min, dtype=dtype, device=_device(call))
    if dtype.is_floating_point:
        value = math.inf if call.op == Min else -math.inf
    else:
        value = torch.iinfo(dtype).max if call.op == Min else torch.iinfo(dtype).min
    return torch.full(shape, value, dtype=dtype, device=_device(call))
