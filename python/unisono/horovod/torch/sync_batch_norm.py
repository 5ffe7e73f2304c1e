"""Batch normalization over the samples of all ranks."""

from ...torch._sync_batch_norm import BatchNormOfRanks
from ._process_sets import global_process_set
from ._reducing import allreduce
from ._requests import Sum


class SyncBatchNorm(BatchNormOfRanks):
    """As torch.nn.BatchNorm1d, 2d and 3d, with mean and variance over the batches of all ranks, which may be of different size.

    Input: (N, C, …), on any device. All ranks make the forward pass while training, and the backward pass if one does. ValueError: an input of one dimension,
    or one value for each channel among all ranks.
    """

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True):
        super().__init__(num_features, eps, momentum, affine, track_running_stats)

    def _ranks(self):
        return global_process_set._working().size

    def _sum(self, tensor):
        return allreduce(tensor, op=Sum)
