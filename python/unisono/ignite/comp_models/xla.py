"""XLA's devices, by torch_xla. On TPUs XLA's own collectives bring its devices together. On the cpu they do not: devices of one process are ranks as threads,
processes have one device each, and either way the tensors travel over unisono."""

import os

import torch

from .base import ComputationModel, is_list_of_ranks

try:
    import torch_xla
    import torch_xla.core.xla_model as xm
    import torch_xla.distributed.xla_multiprocessing as xmp
    import torch_xla.runtime as xr
    from torch_xla._internal import pjrt

    has_xla_support, why_not = True, ""
except (ImportError, OSError) as error:
    has_xla_support, why_not = False, f"this Python cannot import that: {error}"

XLA_TPU = "xla-tpu"


class _XlaDistModel(ComputationModel):
    """The devices that XLA brings together, each a rank; or those that `ranks` brings together: another model, or DeviceThreads."""

    name = "xla-dist"
    available_backends = (XLA_TPU,) if has_xla_support else ()

    _REDUCTIONS = {"SUM": "sum", "AVG": "sum", "PRODUCT": "mul", "MIN": "min", "MAX": "max", "BAND": "and", "BOR": "or"}

    def __init__(self, ranks=None, timeout=None):
        self._is_ours = ranks is not None
        if ranks is None and xr.device_type() == "CPU" and xr.world_size() > 1:
            from ._device_threads import DeviceThreads

            ranks = DeviceThreads(timeout)
        self._ranks = ranks
        if ranks is None:
            self._operations = frozenset(self._REDUCTIONS)

    @classmethod
    def check_options(cls, operation, options, starts_processes=False):
        """Raises TypeError for a keyword argument that init_process_group does not have, before anything is started."""
        from .native import _NativeDistModel

        _NativeDistModel.check_options(operation, options)

    @staticmethod
    def create_from_context():
        # A process where torch_xla is merely installed computes elsewhere.
        return _XlaDistModel() if torch_xla._XLAC._xla_runtime_is_initialized() else None

    @staticmethod
    def create_from_backend(backend=XLA_TPU, init_method=None, world_size=None, rank=None, timeout=None, **kwargs):
        if backend not in _XlaDistModel.available_backends:
            raise ValueError(f"Backend should be one of '{_XlaDistModel.available_backends}'")
        from .. import _meeting

        return _XlaDistModel.join(backend, _meeting.meeting(init_method, rank, world_size), timeout, **kwargs)

    @staticmethod
    def join(backend, meeting, timeout=None, **kwargs):
        """Joins the ranks that XLA brings together, or those of `meeting` where this process's device is alone for XLA.

        Raises RuntimeError where it is neither: several devices in each of several processes that XLA does not bring together.
        """
        from .native import _NativeDistModel

        _XlaDistModel.check_options("initialize", kwargs)
        devices = xr.world_size()
        if devices == 1 and meeting.world_size > 1:
            return _XlaDistModel(_NativeDistModel.join("unisono", meeting, timeout, **kwargs))
        if meeting.world_size not in (1, devices, devices // max(xr.addressable_device_count(), 1)):
            raise RuntimeError(
                f"the launcher has started {meeting.world_size} processes, and XLA has {devices} devices, which cannot be ranks of both: "
                "start one process, or give each one device"
            )
        model = _XlaDistModel(timeout=timeout)
        model.barrier()
        return model

    def is_alive(self):
        """Whether the group is still there in which processes of one device each have met."""
        return self._ranks is None or self._ranks.is_alive()

    def abandon(self, error):
        """Leaves because of an exception: the other ranks are told, where unisono brings them together."""
        if self._ranks:
            self._ranks.abandon(error)

    # Of XLA's own ranks the calling thread knows which it is.
    def get_rank(self):
        return self._ranks.get_rank() if self._ranks else xr.global_ordinal()

    def get_local_rank(self):
        return self._ranks.get_local_rank() if self._ranks else xr.local_ordinal()

    def get_world_size(self):
        return self._ranks.get_world_size() if self._ranks else xr.world_size()

    def get_nproc_per_node(self):
        return self._ranks.get_nproc_per_node() if self._ranks else min(xr.local_device_count(), xr.world_size())

    def get_nnodes(self):
        return self._ranks.get_nnodes() if self._ranks else xr.world_size() // self.get_nproc_per_node()

    def get_node_rank(self):
        return self._ranks.get_node_rank() if self._ranks else xr.global_ordinal() // self.get_nproc_per_node()

    def device(self):
        return torch_xla.device()

    def backend(self):
        return XLA_TPU

    def finalize(self):
        """Leaves the group in which processes of one device each have met. XLA's runtime stays."""
        if self._ranks:
            self._ranks.finalize()

    @staticmethod
    def spawn(fn, args, kwargs_dict=None, nproc_per_node=1, nnodes=1, node_rank=0, backend=XLA_TPU, **kwargs):
        """A process for each device, started as those of native backends, where XLA has one device in each process on the cpu. Otherwise those of
        torch_xla: threads if one process has all devices (CPU_NUM_DEVICES), processes on TPUs. Returns what the functions returned, in rank order.

        ValueError: as many devices as no process here can have. torch_xla's own exceptions, if it starts them.
        """
        from ..utils import _run_in_job

        args, kwargs_dict = tuple(args), dict(kwargs_dict or {})
        on_cpu = xr.device_type() == "CPU"
        here = int(os.environ.get("CPU_NUM_DEVICES") or 1) if on_cpu else nproc_per_node
        if here == 1 and on_cpu and (nproc_per_node > 1 or nnodes > 1):
            from .._spawn import spawn

            return spawn(fn, args, kwargs_dict, nproc_per_node, nnodes, node_rank, backend=backend, **kwargs)
        if here != nproc_per_node:
            raise ValueError(f"CPU_NUM_DEVICES={here} gives a process {here} devices, and not {nproc_per_node}; without it each process has one")
        if on_cpu and nnodes > 1:
            raise ValueError(f"CPU_NUM_DEVICES={here} makes ranks of the devices of one process, on one node; without it each process has one device")
        start_method = kwargs.pop("start_method", "fork")
        for name in ("join", "daemon"):
            if kwargs.pop(name, name == "join") != (name == "join"):
                raise ValueError(f"torch_xla starts and joins its processes itself: {name} cannot be changed")
        _XlaDistModel.check_options("spawn", kwargs)
        if nproc_per_node == 1:
            results = []
            xmp.spawn(lambda index: results.append(_run_in_job(XLA_TPU, kwargs, fn, args, kwargs_dict)), nprocs=1)
            return results
        results = pjrt.run_multiprocess(_run_in_job, XLA_TPU, kwargs, fn, args, kwargs_dict, start_method=start_method)
        return [results[ordinal] for ordinal in sorted(results)]

    def _setup_group(self, group):
        if self._ranks:
            return self._ranks._setup_group(group)
        if group is not None and not is_list_of_ranks(group):
            raise ValueError("Argument group should be list of int")
        return group

    def _do_new_group(self, ranks, **kwargs):
        return self._ranks.new_group(ranks, **kwargs) if self._ranks else ranks

    def _rank_not_in_group(self, group):
        if self._ranks:
            return self._ranks._rank_not_in_group(group)
        return group is not None and self.get_rank() not in group

    def _group_ranks(self, group):
        if self._ranks:
            return self._ranks._group_ranks(group)
        return super()._group_ranks(group) if group is None else sorted(group)

    def _replicas(self, group):
        # XLA wants every rank in one list or another.
        return None if group is None else [sorted(group), *([rank] for rank in range(self.get_world_size()) if rank not in group)]

    def _do_all_reduce(self, tensor, op, group=None):
        if self._ranks:
            host = tensor.cpu()
            self._ranks._do_all_reduce(host, op, group)
        else:
            host = tensor.to(self.device(), copy=True)
            xm.all_reduce(self._REDUCTIONS[op], [host], groups=self._replicas(group))
            if op == "AVG":
                host = host.div(len(self._group_ranks(group)), rounding_mode=None if host.is_floating_point() or host.is_complex() else "trunc")
        tensor.detach().copy_(host)

    def _do_all_gather(self, tensor, group=None):
        if self._ranks:
            return self._ranks._do_all_gather(tensor.cpu(), group).to(tensor.device)
        return xm.all_gather(tensor.to(self.device()), dim=0, groups=self._replicas(group)).to(tensor.device)

    def _do_broadcast(self, tensor, src, group=None):
        if self._ranks:
            host = tensor.cpu()
            self._ranks._do_broadcast(host, src, group)
        else:  # one of the gathered, whose bits are the source's
            ranks = self._group_ranks(group)
            host = self._do_all_gather(tensor.reshape(1, *tensor.shape), group)[ranks.index(src)]
        tensor.detach().copy_(host)

    def barrier(self, group=None):
        group = self._setup_group(group)
        if self._rank_not_in_group(group):
            return
        if self._ranks:
            self._ranks.barrier(group)
        elif self.get_world_size() > 1:
            xm.rendezvous("barrier", replicas=group)

    def reduce_gradients(self, optimizer):
        """Averages the gradients of the optimizer's parameters over all ranks."""
        if self._ranks is None:
            xm.reduce_gradients(optimizer)
            return
        gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        for dtype in dict.fromkeys(gradient.dtype for gradient in gradients):
            alike = [gradient for gradient in gradients if gradient.dtype == dtype]
            flat = torch.cat([gradient.detach().reshape(-1) for gradient in alike])
            self._do_all_reduce(flat, "AVG")
            for gradient, piece in zip(alike, flat.split([gradient.numel() for gradient in alike])):
                gradient.copy_(piece.view(gradient.shape))


def device_loader(loader, device):
    """The loader, whose batches lie on the device, and which marks the end of each step. It has the loader's `sampler`."""
    from torch_xla.distributed.parallel_loader import MpDeviceLoader

    result = MpDeviceLoader(loader, device)
    result.sampler = loader.sampler
    return result


class _Reducing:
    def step(self, closure=None):
        """Computes the gradients by `closure`, if there is one, whose result is returned; averages them over all ranks; and makes the optimizer's step."""
        from .. import utils

        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with torch.no_grad():
            utils._current().reduce_gradients(self)
        super().step()
        torch_xla.sync()
        return loss


def reducing_optimizer(optimizer):
    """An optimizer of a class derived from the given one's, with its parameters, options and state, whose step averages the gradients over all ranks before."""
    cls = type(type(optimizer).__name__, (_Reducing, type(optimizer)), {})
    result = cls.__new__(cls)
    # A learning rate scheduler puts a step() that is bound to the given optimizer among its attributes.
    result.__dict__.update((key, value) for key, value in vars(optimizer).items() if key != "step")
    result.wrapped_optimizer = optimizer
    return result
