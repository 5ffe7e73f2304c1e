"""Collectives on lists of tensors: of the devices that a process drives, or of one tensor of the host. Every rank gives as many."""

import unisono

from ._collectives import call, check_tensors, op_name, reduce_op
from ._errors import refuse, with_errors_of_2018
from ._job import group, group_of


def _beginning_with(tensor_list, index, operation):
    # The tensors, that one first, which is the root's.
    tensors = list(tensor_list)
    check_tensors(operation, *tensors)
    if tensors and not 0 <= index < len(tensors):
        refuse(operation, f"there is no tensor {index} in a list of {len(tensors)}")
    return tensors[index : index + 1] + tensors[:index] + tensors[index + 1 :]


@with_errors_of_2018
def broadcast_multigpu(tensor_list, src, group=group.WORLD, async_op=False, src_tensor=0):
    """tensor_list[src_tensor] of rank `src` of the world goes to all of its other tensors, and to those of all other members."""
    members, tensors = group_of(group, "broadcast_multigpu"), _beginning_with(tensor_list, src_tensor, "broadcast_multigpu")
    if members is not None and tensors:
        return call("broadcast_multigpu", tensors, unisono.GlobalRank(src), members, async_op=async_op)


@with_errors_of_2018
def all_reduce_multigpu(tensor_list, op=reduce_op.SUM, group=group.WORLD, async_op=False):
    """Every tensor of every member becomes the combination of all."""
    members, name = group_of(group, "all_reduce_multigpu"), op_name(op, "all_reduce_multigpu")
    tensors = _beginning_with(tensor_list, 0, "all_reduce_multigpu")
    if members is not None and tensors:
        return call("all_reduce_multigpu", tensors, name, members, async_op=async_op)


@with_errors_of_2018
def reduce_multigpu(tensor_list, dst, op=reduce_op.SUM, group=group.WORLD, async_op=False, dst_tensor=0):
    """tensor_list[dst_tensor] of rank `dst` of the world becomes the combination of all tensors of all members; every other one stays as it is."""
    members, name = group_of(group, "reduce_multigpu"), op_name(op, "reduce_multigpu")
    tensors = _beginning_with(tensor_list, dst_tensor, "reduce_multigpu")
    if members is not None and tensors:
        return call("reduce_multigpu", tensors, unisono.GlobalRank(dst), name, members, async_op=async_op)


@with_errors_of_2018
def all_gather_multigpu(output_tensor_lists, input_tensor_list, group=group.WORLD, async_op=False):
    """Every list of output_tensor_lists gets the inputs of all members: entry k * len(input_tensor_list) + j is input_tensor_list[j] of the group's rank k.

    output_tensor_lists[i] lies on the device of input_tensor_list[i].
    """
    members, inputs = group_of(group, "all_gather_multigpu"), list(input_tensor_list)
    check_tensors("all_gather_multigpu", *inputs, *(tensor for outputs in output_tensor_lists for tensor in outputs))
    if members is None or not inputs:
        return None
    count = members.size() * len(inputs)
    if len(output_tensor_lists) != len(inputs) or any(len(outputs) != count for outputs in output_tensor_lists):
        refuse("all_gather_multigpu", f"{len(inputs)} output lists of {count} tensors each are needed: one for each input of each rank")
    for outputs in output_tensor_lists:
        if any(output.numel() != inputs[0].numel() or output.dtype != inputs[0].dtype for output in outputs):
            refuse("all_gather_multigpu", "all outputs and inputs have one size and type")
    flat = [inputs[i].new_empty((count, inputs[i].numel()), device=outputs[0].device) for i, outputs in enumerate(output_tensor_lists)]

    def unflatten():
        for rows, outputs in zip(flat, output_tensor_lists):
            for row, output in zip(rows, outputs):
                output.copy_(row.view(output.shape))

    return call("all_gather_multigpu", flat, inputs, members, async_op=async_op, then=unflatten)
