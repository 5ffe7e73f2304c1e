"""Batch normalization over the samples of all ranks, on every device that the group's backend serves."""

import torch
from torch import distributed, nn


class _Sum(torch.autograd.Function):
    """The sum over the ranks, whose gradient is the sum of theirs."""

    @staticmethod
    def forward(ctx, group, tensor):
        ctx.group = group
        result = tensor.detach().clone()
        distributed.all_reduce(result, group=group)
        return result

    @staticmethod
    def backward(ctx, gradient):
        return None, _Sum.apply(ctx.group, gradient.contiguous())


class BatchNormOfRanks(nn.modules.batchnorm._BatchNorm):
    """The computation. A subclass says how many ranks there are, and how their tensors are summed with gradients."""

    def _check_input_dim(self, input):
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    def _ranks(self):
        raise NotImplementedError

    def _sum(self, tensor):
        raise NotImplementedError

    def forward(self, input):
        """The normalized input, of its shape and dtype."""
        self._check_input_dim(input)
        from_batch = self.training or not self.track_running_stats
        if not from_batch or self._ranks() == 1:
            return super().forward(input)
        x = input if input.dtype == torch.float64 else input.float()
        axes, shape = [0, *range(2, x.dim())], [1, -1, *[1] * (x.dim() - 2)]
        # The mean comes first, so that the variance is not a difference of large numbers.
        own_count = x.new_tensor([x.numel() // max(x.shape[1], 1)])
        sums = self._sum(torch.cat([x.sum(axes), own_count]))
        count = sums[-1].detach()
        if count.item() <= 1:
            raise ValueError("expected more than 1 value per channel when training")
        centred = x - (sums[:-1] / count).view(shape)
        variance = self._sum(centred.square().sum(axes)) / count
        if self.training and self.track_running_stats:
            self._track(sums[:-1].detach() / count, variance.detach() * count / (count - 1))
        y = centred * (variance + self.eps).rsqrt().view(shape)
        if self.affine:
            y = y * self.weight.view(shape)
            y = y if self.bias is None else y + self.bias.view(shape)
        return y.to(input.dtype)

    @torch.no_grad()
    def _track(self, mean, variance):
        self.num_batches_tracked.add_(1)
        share = 1 / self.num_batches_tracked.item() if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), share)
        self.running_var.lerp_(variance.to(self.running_var.dtype), share)


class SyncBatchNorm(BatchNormOfRanks):
    """torch.nn.BatchNorm1d, 2d and 3d in one, with mean and variance over the batches of all ranks, which may be of different size.

    It has the arguments, parameters and buffers of torch.nn.SyncBatchNorm, which needs a GPU. Input: (N, C, …). While training all ranks of the group make
    the forward pass, and the backward pass if one does; in evaluation, and alone, nothing is sent. process_group: of torch.distributed, None for all ranks.
    ValueError: an input of one dimension, or one value for each channel among all ranks.

        model = SyncBatchNorm.convert_sync_batchnorm(model)
    """

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, process_group=None, device=None, dtype=None):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device=device, dtype=dtype)
        self.process_group = process_group

    def _ranks(self):
        return distributed.get_world_size(self.process_group) if distributed.is_available() and distributed.is_initialized() else 1

    def _sum(self, tensor):
        return _Sum.apply(self.process_group, tensor)

    @classmethod
    def convert_sync_batchnorm(cls, module, process_group=None):
        """The module with every batch norm in it, also torch.nn.SyncBatchNorm, replaced by one of these with the same parameters and buffers."""
        result = module
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and not isinstance(module, cls):
            result = cls(module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats, process_group)
            for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked", "training"):
                setattr(result, name, getattr(module, name))
        for name, child in module.named_children():
            result.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return result
