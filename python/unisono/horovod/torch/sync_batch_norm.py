"""Batch normalization over the samples of all ranks."""

import torch
from torch import nn

from ._process_sets import global_process_set
from ._reducing import allreduce
from ._requests import Sum


class SyncBatchNorm(nn.modules.batchnorm._BatchNorm):
    """As torch.nn.BatchNorm1d, 2d and 3d, with mean and variance over the batches of all ranks, which may be of different size.

    Input: (N, C, …), on any device. All ranks make the forward pass while training, and the backward pass if one does. ValueError: an input of one dimension,
    or one value for each channel among all ranks.
    """

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True):
        super().__init__(num_features, eps, momentum, affine, track_running_stats)

    def _check_input_dim(self, input):
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    def forward(self, input):
        """The normalized input, of its shape and dtype."""
        self._check_input_dim(input)
        from_batch = self.training or not self.track_running_stats
        if not from_batch or global_process_set._working().size == 1:
            return super().forward(input)
        x = input if input.dtype == torch.float64 else input.float()
        axes, shape = [0, *range(2, x.dim())], [1, -1, *[1] * (x.dim() - 2)]
        # The mean comes first, so that the variance is not a difference of large numbers.
        own_count = x.new_tensor([x.numel() // max(x.shape[1], 1)])
        sums = allreduce(torch.cat([x.sum(axes), own_count]), op=Sum)
        count = sums[-1].detach()
        if count.item() <= 1:
            raise ValueError("expected more than 1 value per channel when training")
        centred = x - (sums[:-1] / count).view(shape)
        variance = allreduce(centred.square().sum(axes), op=Sum) / count
        if self.training and self.track_running_stats:
            self._track(sums[:-1].detach() / count, variance.detach() * count / (count - 1))
        y = centred * (variance + self.eps).rsqrt().view(shape)
        if self.affine:
            y = y * self.weight.view(shape) + self.bias.view(shape)
        return y.to(input.dtype)

    @torch.no_grad()
    def _track(self, mean, variance):
        self.num_batches_tracked.add_(1)
        share = 1 / self.num_batches_tracked.item() if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), share)
        self.running_var.lerp_(variance.to(self.running_var.dtype), share)
