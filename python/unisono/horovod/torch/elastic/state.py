"""The state that is equal on all members of an elastic job: kept at each commit, put back after a loss, and sent to those that come later."""

import copy

import torch

from .._job import rank
from ..functions import broadcast_object, broadcast_optimizer_state, broadcast_parameters
from . import _world
from .sampler import ElasticSampler


class HostsUpdatedInterrupt(RuntimeError):
    """Processes wait to be taken in: elastic.run takes them in, and calls its function again. skip_sync: without state.sync()."""

    def __init__(self, skip_sync=False):
        super().__init__("processes wait to be taken into the job")
        self.skip_sync = skip_sync


class State:
    """Base of the states. A subclass defines save, restore and sync, and perhaps reset.

    bcast_object: a function that returns rank 0's object on every rank. get_rank: a function that returns this process's rank.
    """

    def __init__(self, bcast_object, get_rank):
        self._bcast_object, self._rank = bcast_object, get_rank
        self._reset_callbacks = []

    def register_reset_callbacks(self, callbacks):
        """Adds functions that elastic.run calls whenever the members have changed: one that scales the learning rate, say."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self):
        """Called by elastic.run when the members have changed."""
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def commit(self):
        """save(), then check_host_updates(). All ranks call it, between two steps."""
        self.save()
        self.check_host_updates()

    def check_host_updates(self):
        """Raises HostsUpdatedInterrupt, on all ranks alike, where processes wait to be taken in. All ranks call it."""
        if _world.newcomers_wait():
            raise HostsUpdatedInterrupt()

    def save(self):
        """Keeps a copy of the state."""
        raise NotImplementedError()

    def restore(self):
        """Puts back what save has kept."""
        raise NotImplementedError()

    def sync(self):
        """Gives all ranks the state of rank 0, which is a member that has been there the longest."""
        raise NotImplementedError()

    def reset(self):
        """The work of a subclass when the members have changed, before sync."""


class ObjectState(State):
    """Objects that can be pickled, each an attribute of the state by its name. The attributes are the given objects themselves; a copy is saved.

    kwargs: the attributes and their first values.
    """

    def __init__(self, bcast_object, get_rank, **kwargs):
        self._saved_state = kwargs
        self._set_attrs(kwargs)
        ObjectState.save(self)
        super().__init__(bcast_object=bcast_object, get_rank=get_rank)

    def save(self):
        self._saved_state = copy.deepcopy({name: getattr(self, name) for name in self._saved_state})

    def restore(self):
        self._set_attrs(copy.deepcopy(self._saved_state))

    def sync(self):
        if self._saved_state:
            self._set_attrs(self._bcast_object({name: getattr(self, name) for name in self._saved_state}))
            ObjectState.save(self)

    def _set_attrs(self, values):
        for name, value in values.items():
            setattr(self, name, value)


class TorchState(ObjectState):
    """Models, optimizers and ElasticSamplers, each by what it needs, and other objects as ObjectState has them; all are attributes of the state.

    model, optimizer: one of each, or None. kwargs: others by their names, and objects.

        state = hvd.elastic.TorchState(model, optimizer, sampler=sampler, epoch=0, batch=0)
    """

    def __init__(self, model=None, optimizer=None, **kwargs):
        kwargs.update(model=model, optimizer=optimizer)
        self._handlers = {name: handler for name, value in kwargs.items() if (handler := _handler_of(value)) is not None}
        for name, handler in self._handlers.items():
            setattr(self, name, handler.value)
        super().__init__(broadcast_object, rank, **{name: value for name, value in kwargs.items() if name not in self._handlers})

    def save(self):
        for handler in self._handlers.values():
            handler.save()
        super().save()

    def restore(self):
        for handler in self._handlers.values():
            handler.restore()
        super().restore()

    def sync(self):
        for handler in self._handlers.values():
            handler.sync()
        super().sync()

    def __setattr__(self, name, value):
        handler = self.__dict__.get("_handlers", {}).get(name)
        if handler is not None:
            handler.set_value(value)
        super().__setattr__(name, value)


class StateHandler:
    """How TorchState keeps a value that has state_dict and load_state_dict. A subclass says how it reaches the other ranks."""

    def __init__(self, value):
        self.value = value
        self.save()

    def save(self):
        """Keeps a copy."""
        self._saved = copy.deepcopy(self.value.state_dict())

    def restore(self):
        """Puts the copy back."""
        self.value.load_state_dict(copy.deepcopy(self._saved))

    def sync(self):
        """Gives all ranks rank 0's, and keeps a copy of that."""
        self._send()
        self.save()

    def set_value(self, value):
        """Takes another value."""
        self.value = value
        self.save()

    def _send(self):
        raise NotImplementedError()


class ModelStateHandler(StateHandler):
    """Of a torch.nn.Module."""

    def _send(self):
        broadcast_parameters(self.value.state_dict(), root_rank=0)


class OptimizerStateHandler(StateHandler):
    """Of a torch.optim.Optimizer."""

    def _send(self):
        broadcast_optimizer_state(self.value, root_rank=0)


class SamplerStateHandler(StateHandler):
    """Of an ElasticSampler, which divides what is left among the ranks that there are now."""

    def _send(self):
        self.value.load_state_dict(broadcast_object(self.value.state_dict()))


_registry = [(torch.nn.Module, ModelStateHandler), (torch.optim.Optimizer, OptimizerStateHandler), (ElasticSampler, SamplerStateHandler)]


def get_handler_registry():
    """The (type, StateHandler) pairs by which TorchState handles values: the first that fits."""
    return _registry


def set_handler_registry(registry):
    """Replaces them."""
    global _registry
    _registry = registry


def _handler_of(value):
    return next((handler(value) for kind, handler in _registry if isinstance(value, kind)), None)
