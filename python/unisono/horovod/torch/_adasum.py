"""Adasum: gradients that agree are averaged, and those that are orthogonal are added (Maleki et al., 2020).

Two vectors give (1 - a·b / 2|a|²) a + (1 - a·b / 2|b|²) b. Ranks are combined pair by pair, then the pairs' results, and so on: log2(n) exchanges of the
whole vector. If the number of ranks is not a power of two, the ranks beyond it are combined with the first ones before, and are sent the result.
"""

import torch
from torch import distributed

SMALLEST = 1.5e-154  # a squared norm below it counts as 0: the vector is added as it is


def combine(a, b):
    """The adaptive sum of two vectors, in their dtype. Products are summed in float64."""
    x, y = a.double(), b.double()
    product, norm_a, norm_b = torch.dot(x, y), torch.dot(x, x), torch.dot(y, y)
    factor_a = 1 - product / (2 * norm_a) if norm_a >= SMALLEST else 1
    factor_b = 1 - product / (2 * norm_b) if norm_b >= SMALLEST else 1
    return (factor_a * x + factor_b * y).to(a.dtype)


def reduce(own, group):
    """The adaptive sum of every rank's vector. The result is equal on all ranks to the last bit."""
    rank, size = distributed.get_rank(group), distributed.get_world_size(group)
    paired = 1 << (size.bit_length() - 1)
    other = torch.empty_like(own)
    if rank >= paired:
        distributed.send(own, group=group, group_dst=rank - paired)
        distributed.recv(other, group=group, group_src=rank - paired)
        return other
    if rank + paired < size:
        distributed.recv(other, group=group, group_src=rank + paired)
        own = combine(own, other)
    distance = 1
    while distance < paired:
        peer = rank ^ distance
        sent = distributed.isend(own, group=group, group_dst=peer)
        distributed.recv(other, group=group, group_src=peer)
        sent.wait()
        own = combine(own, other) if rank < peer else combine(other, own)
        distance *= 2
    if rank + paired < size:
        distributed.send(own, group=group, group_dst=rank + paired)
    return own
