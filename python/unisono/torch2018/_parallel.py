"""DistributedDataParallel and DistributedDataParallelCPU as they were: gradients are averaged over the ranks at the end of each backward pass."""

import torch
from torch.nn.parallel import gather, parallel_apply, replicate
from torch.nn.parallel.scatter_gather import scatter_kwargs

import unisono

from ._errors import with_errors_of_2018
from ._job import _INITIALIZED_PG, _State, dist_backend, require


@with_errors_of_2018
def _from_rank_0(tensors):
    for tensor in tensors:
        if isinstance(tensor, torch.Tensor):
            unisono.broadcast(tensor.detach())


class _Averaging(torch.nn.Module):
    def __init__(self, module):
        require(type(self).__name__, _INITIALIZED_PG)
        super().__init__()
        self.module = module
        self.needs_reduction = False
        self._watch()

    def __setstate__(self, state):
        super().__setstate__(state)
        self._watch()

    def _watch(self):
        # A backward pass averages once, after its last gradient.
        def watched(_parameter):
            if self.needs_reduction:
                torch.autograd.Variable._execution_engine.queue_callback(self._average)

        for parameter in self.module.parameters():
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(watched)

    @with_errors_of_2018
    def _average(self):
        if not self.needs_reduction:
            return
        self.needs_reduction = False
        gradients = [parameter.grad for parameter in self.module.parameters() if parameter.requires_grad and parameter.grad is not None]
        if any(gradient.requires_grad for gradient in gradients):
            raise RuntimeError("DistributedDataParallel only works with gradients that don't require grad")
        unisono.all_reduce_params(gradients, op="avg")


class DistributedDataParallelCPU(_Averaging):
    """Trains `module` on all ranks: its parameters begin as those of rank 0, and the gradients of a backward pass are averaged, in place.

    Its buffers stay each rank's own. All ranks make it, and call it equally often; every parameter that requires a gradient has one on all ranks or on none.
    It can be saved whole and loaded.
    """

    def __init__(self, module):
        super().__init__(module)
        self.sync_parameters()

    def sync_parameters(self):
        """Sets the parameters to those of rank 0. All ranks call it."""
        _from_rank_0(self.module.parameters())

    def forward(self, *inputs, **kwargs):
        self.needs_reduction = True
        return self.module(*inputs, **kwargs)


class DistributedDataParallel(_Averaging):
    """The same with buffers, and on the GPUs of a process: each gets a part of the inputs along the axis `dim`.

    device_ids: the GPUs, the module's own first; all that there are where they are not given. Without a GPU the module computes on the host.
    output_device: the device where the outputs are gathered; the first of device_ids if it is not
    given. broadcast_buffers: whether every forward pass begins with the buffers of rank 0.

    Raises ValueError unless the backend is nccl or gloo.
    """

    def __init__(self, module, device_ids=None, output_device=None, dim=0, broadcast_buffers=True):
        super().__init__(module)
        if _State.backend not in (dist_backend.NCCL, dist_backend.GLOO):
            raise ValueError("Invalid backend, only NCCL and GLOO backends are supported by DistributedDataParallel")
        self.device_ids = list(range(torch.cuda.device_count())) if device_ids is None else list(device_ids)
        self.output_device = self.device_ids[0] if output_device is None and self.device_ids else output_device
        self.dim, self.broadcast_buffers = dim, broadcast_buffers
        _from_rank_0(module.state_dict().values())

    def forward(self, *inputs, **kwargs):
        self.needs_reduction = True
        if self.broadcast_buffers:
            _from_rank_0(self.module.buffers())
        if not self.device_ids:
            return self.module(*inputs, **kwargs)
        inputs, kwargs = scatter_kwargs(inputs, kwargs, self.device_ids, self.dim)
        if len(self.device_ids) == 1:
            return self.module(*inputs[0], **kwargs[0])
        devices = self.device_ids[: len(inputs)]
        replicas = replicate(self.module, devices, not torch.is_grad_enabled())
        return gather(parallel_apply(replicas, inputs, kwargs, devices), self.output_device, self.dim)
