"""Data loaders, models, optimizers and samplers for however many processes there are."""

import inspect
import warnings

import torch
from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data.distributed import DistributedSampler
from torch.utils.data.sampler import Sampler

import unisono.torch

from . import utils as idist
from ._logging import rank_logger

__all__ = ["auto_dataloader", "auto_model", "auto_optim", "DistributedProxySampler"]

BATCH_SPLITS = ("floor", "even_remainder", "per_rank")


def _batch_size(total, split, rank, world_size):
    if split not in BATCH_SPLITS:
        raise ValueError(f"Argument batch_split should be one of {BATCH_SPLITS}, but given {split!r}")
    if split == "per_rank" or total < world_size:
        return total
    return total // world_size + (split == "even_remainder" and rank < total % world_size)


def _check_sampler(sampler, rank, world_size):
    if sampler.rank != rank:
        warnings.warn(f"Found distributed sampler with rank={sampler.rank}, but process rank is {rank}", stacklevel=4)
    if sampler.num_replicas != world_size:
        warnings.warn(f"Found distributed sampler with num_replicas={sampler.num_replicas}, but world size is {world_size}", stacklevel=4)


def _distribute(dataset, kwargs, batch_split, rank, world_size, logger):
    # The arguments of the loader of one of several processes.
    if kwargs.get("batch_size") is not None:
        total = kwargs["batch_size"]
        kwargs["batch_size"] = _batch_size(total, batch_split, rank, world_size)
        if batch_split != "per_rank" and (total < world_size or (batch_split == "floor" and total % world_size)):
            logger.info(f"batch_size {total} in {world_size} processes: {kwargs['batch_size']} in each, {kwargs['batch_size'] * world_size} together")
    per_node = idist.get_nproc_per_node()
    if kwargs.get("num_workers", 0) >= per_node:
        kwargs["num_workers"] = -(-kwargs["num_workers"] // per_node)
    if kwargs.get("batch_sampler") is not None:
        warnings.warn("Found batch_sampler in provided kwargs. Please, make sure that it is compatible with distributed configuration", stacklevel=3)
        return
    if isinstance(dataset, IterableDataset):
        logger.info(
            "Found iterable dataset, dataloader will be created without any distributed sampling. "
            "Please, make sure that the dataset itself produces different data on different ranks."
        )
        return
    sampler = kwargs.get("sampler")
    if isinstance(sampler, DistributedSampler):
        _check_sampler(sampler, rank, world_size)
    elif sampler is not None:
        kwargs["sampler"] = DistributedProxySampler(sampler, num_replicas=world_size, rank=rank)
    else:
        if "shuffle" not in kwargs:
            warnings.warn(
                f"auto_dataloader: shuffle was not given: in {world_size} processes the data is shuffled, in one it is not. Say shuffle=True or False.",
                stacklevel=3,
            )
        kwargs["sampler"] = DistributedSampler(dataset, num_replicas=world_size, rank=rank, shuffle=kwargs.pop("shuffle", True))


def auto_dataloader(dataset, *, batch_split="floor", **kwargs):
    """A DataLoader with each process's part of the data. kwargs: of torch's DataLoader. With "xla-tpu" and several processes MpDeviceLoader wraps it.

    batch_size is the total of all processes, shared out by `batch_split`. It is "floor" (batch_size // world size; the remainder is lost, and
    logged), "even_remainder" (the first ranks take one more), "per_rank" (it is each process's own). A batch_size below the world size stays as it
    is. num_workers is the total of the node, rounded up. The sampler is a DistributedSampler; one of the program's is wrapped in a
    DistributedProxySampler; a batch_sampler and an iterable dataset stay as they are. pin_memory is on where the device is a GPU, unless given. Call
    set_epoch of the sampler before each epoch.
    """
    rank, world_size = idist.get_rank(), idist.get_world_size()
    logger = rank_logger(f"{__name__}.auto_dataloader", rank)
    if batch_split not in BATCH_SPLITS:
        raise ValueError(f"Argument batch_split should be one of {BATCH_SPLITS}, but given {batch_split!r}")
    if world_size > 1:
        _distribute(dataset, kwargs, batch_split, rank, world_size, logger)
    is_xla = idist.model_name() == "xla-dist"
    if is_xla and kwargs.get("pin_memory"):
        warnings.warn(
            "Found incompatible options: xla support and pin_memory args equal True. "
            "Argument `pin_memory=False` will be used to construct data loader.",
            stacklevel=2,
        )
        kwargs["pin_memory"] = False
    kwargs.setdefault("pin_memory", "cuda" in idist.device().type)
    logger.info(f"Use data loader kwargs for dataset '{repr(dataset)[:20].strip()}': \n\t{kwargs}")
    loader = DataLoader(dataset, **kwargs)
    if is_xla and world_size > 1:
        from .comp_models.xla import device_loader

        logger.info("DataLoader is wrapped by `MpDeviceLoader` on XLA")
        return device_loader(loader, idist.device())
    return loader


def _check_wrapping(kwargs):
    # Also where nothing is wrapped: a program that is tried with one process is told what it would be told with many.
    wrappers = (torch.nn.parallel.DistributedDataParallel, torch.nn.DataParallel)
    for name in kwargs:
        if not any(name in inspect.signature(wrapper).parameters for wrapper in wrappers):
            raise TypeError(f"auto_model() got an unexpected keyword argument '{name}'")


def auto_model(model, sync_bn=False, **kwargs):
    """The model on this process's device, wrapped in DistributedDataParallel if there are several processes. kwargs: of DistributedDataParallel.

    sync_bn: batch norms become torch.nn.SyncBatchNorm on GPUs, and unisono.torch.SyncBatchNorm on the cpu; with one process, too. One process with several
    GPUs gets DataParallel. With "horovod" the model gets rank 0's parameters and buffers, with "xla-tpu" it is only moved, and neither wraps it: auto_optim's
    optimizer reduces the gradients there. With "xla-tpu" sync_bn has no effect.

    Raises ValueError for device_ids if there are GPUs: they are this process's. TypeError for an argument of neither wrapper.
    """
    _check_wrapping(kwargs)
    logger = rank_logger(f"{__name__}.auto_model", idist.get_rank())
    device = idist.device()
    elsewhere = [p.device for p in model.parameters() if p.device != device]
    if elsewhere:
        if elsewhere[0].type != "cpu" and (elsewhere[0].type != device.type or device.index is not None):
            logger.warning(f"The model is moved from {elsewhere[0]} to {device}, the device of this process")
        model.to(device)
    kind = idist.model_name()
    if sync_bn and kind != "xla-dist":
        logger.info("Convert batch norm to sync batch norm")
        synchronized = torch.nn.SyncBatchNorm if device.type == "cuda" else unisono.torch.SyncBatchNorm
        model = synchronized.convert_sync_batchnorm(model)
    if kind in ("horovod-dist", "xla-dist"):
        if kind == "horovod-dist" and idist.get_world_size() > 1:
            from ..horovod import torch as hvd

            logger.info("Broadcast the initial variable states from rank 0 to all other processes")
            hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        return model
    if idist.get_world_size() > 1:
        if device.type == "cuda":
            if "device_ids" in kwargs:
                raise ValueError(f"Argument kwargs should not contain 'device_ids', but got {kwargs}")
            logger.info(f"Apply torch DistributedDataParallel on model, device id: {device.index}")
            return torch.nn.parallel.DistributedDataParallel(model, device_ids=[device.index], **kwargs)
        logger.info("Apply torch DistributedDataParallel on model")
        return torch.nn.parallel.DistributedDataParallel(model, **kwargs)
    if torch.cuda.device_count() > 1 and device.type == "cuda":
        logger.info("Apply torch DataParallel on model")
        return torch.nn.DataParallel(model, **kwargs)
    return model


def auto_optim(optimizer, **kwargs):
    """The optimizer itself, where DistributedDataParallel reduces the gradients.

    With "horovod" it is hvd.DistributedOptimizer(optimizer, **kwargs) with rank 0's state. With "xla-tpu" one of the optimizer's class whose step reduces the
    gradients first; the given one is its `wrapped_optimizer`. Raises TypeError for kwargs without "horovod".
    """
    if idist.model_name() == "horovod-dist":
        from ..horovod import torch as hvd

        optimizer = hvd.DistributedOptimizer(optimizer, **kwargs)
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
        return optimizer
    for name in kwargs:
        raise TypeError(f"auto_optim() got an unexpected keyword argument '{name}': Horovod's are those of unisono.horovod.torch.DistributedOptimizer")
    if idist.model_name() == "xla-dist":
        from .comp_models.xla import reducing_optimizer

        return reducing_optimizer(optimizer)
    return optimizer


class DistributedProxySampler(DistributedSampler):
    """Each process's part of what another sampler yields: every process draws all of it, from torch's generator seeded with seed + epoch, and takes its stride.

    The global generator is as before when the indices have been drawn. Call set_epoch(epoch) before each epoch, or each has the same order.
    Raises TypeError for an object that is not a sampler, is distributed already, or has no length; RuntimeError if the sampler yields nothing.
    """

    def __init__(self, sampler, num_replicas=None, rank=None, *, seed=0):
        if not isinstance(sampler, Sampler):
            raise TypeError(f"Argument sampler should be instance of torch Sampler, but given: {type(sampler)}")
        if isinstance(sampler, DistributedSampler):
            raise TypeError("Argument sampler must not be a distributed sampler already")
        if not hasattr(sampler, "__len__"):
            raise TypeError("Argument sampler should have length")
        super().__init__(sampler, num_replicas=num_replicas, rank=rank, shuffle=False, seed=seed)
        self.sampler = sampler
        self._epoch_is_told, self._drawn = False, False

    def set_epoch(self, epoch):
        """Says which epoch the next iteration is of."""
        self._epoch_is_told = True
        super().set_epoch(epoch)

    def _draw(self):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed + self.epoch)
            indices = []
            while len(indices) < self.total_size:
                drawn = list(self.sampler)
                if not drawn:
                    raise RuntimeError(f"{type(self.sampler).__name__} yields nothing, and says that it has {len(self.sampler)}")
                indices += drawn
        return indices

    def __iter__(self):
        if self._drawn and not self._epoch_is_told:
            self._epoch_is_told = True  # said once
            warnings.warn("DistributedProxySampler: set_epoch was not called, so that every epoch has the same order", stacklevel=2)
        self._drawn = True
        return iter(self._draw()[self.rank : self.total_size : self.num_replicas])
