"""The functions of every computation model, the values that travel, and the model of a process that is alone."""

import inspect
import sys
import warnings
from abc import ABCMeta, abstractmethod
from numbers import Number

import torch

from .. import _frames

__all__ = ["ComputationModel"]

OPS = {
    "SUM": "SUM",
    "PRODUCT": "PRODUCT",
    "PROD": "PRODUCT",
    "MIN": "MIN",
    "MAX": "MAX",
    "AND": "BAND",
    "BAND": "BAND",
    "OR": "BOR",
    "BOR": "BOR",
    "XOR": "BXOR",
    "BXOR": "BXOR",
    "AVG": "AVG",
    "AVERAGE": "AVG",
    "MEAN": "AVG",
}


def parse_op(op, known=frozenset(OPS.values())):
    """The name of torch's ReduceOp: "SUM", "PRODUCT", "MIN", "MAX", "AND", "OR", "XOR", "AVG" in any case, and their other spellings. known: what the
    model has of them, and others of its own."""
    name = OPS.get(op.upper(), op.upper()) if isinstance(op, str) else None
    if name not in known:
        raise ValueError(f"Unsupported reduction operation: '{op}'")
    return name


def is_list_of_ranks(ranks):
    return isinstance(ranks, (list, tuple)) and all(isinstance(rank, int) and not isinstance(rank, bool) for rank in ranks)


def _number_tensor(number):
    if isinstance(number, int) and not isinstance(number, bool):
        if not -(1 << 63) <= number < 1 << 63:
            raise ValueError(f"all_reduce of {number}: an int travels in 64 bits")
        return torch.tensor(number, dtype=torch.int64)
    if isinstance(number, float):
        return torch.tensor(number, dtype=torch.float64)
    if isinstance(number, complex):
        return torch.tensor(number, dtype=torch.complex128)
    return torch.as_tensor(number)


def _check_result_fits(number, op, ranks):
    # As unisono.all_reduce: the number of every rank may be as large.
    largest = abs(number) ** ranks if op == "PRODUCT" else abs(number) * ranks
    if op in ("SUM", "PRODUCT", "AVG") and ranks > 1 and largest >= 1 << 63:
        raise ValueError(f"all_reduce of {number}: an int travels in 64 bits, and the {op.lower()} of {ranks} as large needs more")


def _required(doc):
    """A method that a subclass has to define."""

    @abstractmethod
    def method(*args, **kwargs):
        pass  # a subclass may call it by super()

    method.__doc__ = doc
    return method


class ComputationModel(metaclass=ABCMeta):
    """Base of the models: a subclass tells who and where it is, and moves tensors; numbers, texts, paths and objects are this class's.

    Subclasses define `name` and `available_backends`, the abstract methods, and `_do_all_reduce(tensor, op, group)`, `_do_all_gather(tensor, group)`,
    `_do_broadcast(tensor, src, group)`, `_do_new_group(ranks, **kwargs)`, `_rank_not_in_group(group)`.
    """

    name = ""
    available_backends = ()
    _ext_local_rank = None  # set_local_rank's hint
    _collective_op_dtype = None  # a dtype that every reduction travels in
    _operations = frozenset(OPS.values())
    _is_ours = False  # whether the model has made what it stands for

    get_local_rank = _required("Rank among the processes of this node.")
    get_rank = _required("Rank in the world.")
    get_world_size = _required("The number of processes.")
    get_nproc_per_node = _required("The number of processes of this node.")
    get_nnodes = _required("The number of nodes.")
    get_node_rank = _required("Rank of this node.")
    device = _required("The device that this process computes on.")
    backend = _required("The name of the backend, None if there is none.")
    finalize = _required("Leaves the job.")
    create_from_context = staticmethod(_required("The model of what exists already, or None."))
    create_from_backend = staticmethod(_required("Joins a job, and returns its model."))
    spawn = staticmethod(_required("Starts processes that run a function in a job of their own."))
    barrier = _required("Returns when all have called it.")
    _do_all_reduce = _required("(tensor, op, group): in place; `op` is a name of torch's ReduceOp.")
    _do_all_gather = _required("(tensor, group): a new tensor, those of all ranks, concatenated along dimension 0.")
    _do_broadcast = _required("(tensor, src, group): in place.")
    _do_new_group = _required("(ranks, **kwargs): a handle.")
    _rank_not_in_group = _required("(group): whether this process is outside of the group.")

    @classmethod
    def serves(cls, backend):
        """Whether `backend` is a name for this kind of model."""
        return backend in cls.available_backends

    @classmethod
    def check_options(cls, operation, options, starts_processes=False):
        """Raises TypeError for a keyword argument that create_from_backend does not have, or spawn where it `starts_processes`, before anything is started."""

    def is_alive(self):
        """Whether what the model stands for is still there."""
        return True

    def abandon(self, error):
        """Leaves because of an exception: the other ranks are told, and do not wait."""
        from unisono import _ending

        extension = sys.modules.get("unisono.torch._extension")
        if extension is not None and self._is_ours and self.is_alive():
            extension.end_all(_ending.describe(error) or "left its scope")
        self.finalize()

    def _current_gpu_or_cpu(self):
        if not torch.cuda.is_available():
            return torch.device("cpu")
        index = torch.cuda.current_device()
        if index < self.get_local_rank() % torch.cuda.device_count():
            warnings.warn(
                "Current device index is less than current local rank. Please, make sure to call torch.cuda.set_device(local_rank).", stacklevel=4
            )
        return torch.device(f"cuda:{index}")

    def _setup_group(self, group):
        # A list becomes the group's handle.
        return group

    def _carrier(self, group):
        # The device over which bytes travel.
        return torch.device("cpu")

    def _apply_in_place(self, tensor, call):
        dtype = self._collective_op_dtype
        if dtype is None or dtype == tensor.dtype:
            call(tensor)
        else:
            travelling = tensor.to(dtype)
            call(travelling)
            tensor.copy_(travelling)
        return tensor

    def all_reduce(self, tensor, op="SUM", group=None):
        """A tensor is reduced in place and returned; a number is returned with its type."""
        is_tensor = isinstance(tensor, torch.Tensor)
        if not is_tensor and not isinstance(tensor, Number):
            raise TypeError(f"Unhandled input type {type(tensor)}")
        op = parse_op(op, self._operations)
        group = self._setup_group(group)
        data = tensor if is_tensor else _number_tensor(tensor)
        if self._rank_not_in_group(group):
            return tensor
        if isinstance(tensor, int):
            _check_result_fits(tensor, op, len(self._group_ranks(group)))
        self._apply_in_place(data, lambda x: self._do_all_reduce(x, op, group))
        return data if is_tensor else type(tensor)(data.item())

    def all_gather(self, tensor, group=None):
        """Tensors are concatenated along dimension 0; of anything else, a list of what every rank gave."""
        group = self._setup_group(group)
        if self._rank_not_in_group(group):
            return tensor
        if isinstance(tensor, torch.Tensor):
            return self._do_all_gather(tensor.detach() if tensor.dim() else tensor.detach().reshape(1), group)
        return self._gather_values(tensor, group)

    def _gather_values(self, value, group=None):
        failure = None
        try:
            kind, payload = _frames.encode(value)
        except Exception as error:  # every rank is told, because all wait for this one
            failure = error
            kind, payload = _frames.encode_error(f"all_gather: rank {self.get_rank()} gave a {type(value).__name__} that cannot be sent: {error}")
        carrier = self._carrier(group)
        answers = _frames.gather(kind, payload, lambda x: self._do_all_gather(x.to(carrier), group))
        if failure is not None:
            raise failure
        return [_frames.decode(*answer) for answer in answers]

    def broadcast(self, tensor, src=0, safe_mode=False, group=None):
        """The value of rank `src` of the world, on every rank. A tensor is filled in place where it has src's dtype and shape."""
        group = self._setup_group(group)
        if not 0 <= src < self.get_world_size():
            raise ValueError(f"src should be between 0 and {self.get_world_size() - 1}, but given {src}")
        if self._rank_not_in_group(group):
            return tensor
        is_src = self.get_rank() == src
        if safe_mode:
            return self._broadcast_anything(tensor, src, is_src, group)
        if tensor is None:
            if is_src:
                raise ValueError("Source data can not be None")
            raise ValueError("Argument safe_mode should be True if None is passed for non src rank")
        if isinstance(tensor, torch.Tensor):
            self._do_broadcast(tensor, src, group)
            return tensor
        return self._broadcast_anything(tensor, src, is_src, group)

    def _send(self, kind, payload, src, is_src, group):
        carrier = self._carrier(group)

        def send(x):
            x = x.to(carrier)
            self._do_broadcast(x, src, group)
            return x

        return _frames.broadcast(kind, payload, is_src, send)

    def _broadcast_anything(self, value, src, is_src, group):
        encoded, failure = (0, b""), None
        if is_src:
            try:
                if value is None:
                    raise ValueError("Source data can not be None")
                if isinstance(value, torch.Tensor) and value.layout != torch.strided:
                    raise TypeError(f"broadcast with safe_mode sends dense tensors, not {value.layout}")
                encoded = _frames.encode_shape(value) if isinstance(value, torch.Tensor) else _frames.encode(value)
            except Exception as error:  # the others are told, because they wait
                failure, encoded = error, _frames.encode_error(f"rank {src}: {error}")
        kind, payload = self._send(*encoded, src, is_src, group)
        if failure is not None:
            raise failure
        result = _frames.decode(kind, payload)
        if kind != _frames.TENSOR:
            return result
        dtype, shape = result
        is_alike = isinstance(value, torch.Tensor) and value.layout == torch.strided and value.dtype == dtype and list(value.shape) == shape
        tensor = value if is_alike else torch.empty(shape, dtype=dtype, device=self.device())
        self._do_broadcast(tensor, src, group)
        return tensor

    def new_group(self, ranks, **kwargs):
        """A group of these ranks of the world."""
        if not isinstance(ranks, list) or not is_list_of_ranks(ranks):
            raise ValueError("Argument ranks should be list of int")
        if len(set(ranks)) < len(ranks):
            raise ValueError(f"Argument ranks should not have a rank twice, but given {ranks}")
        for name in kwargs:
            if name not in inspect.signature(torch.distributed.new_group).parameters:
                raise TypeError(f"new_group() got an unexpected keyword argument '{name}'")
        return self._do_new_group(ranks, **kwargs)

    def _group_ranks(self, group):
        # The ranks of the world that are in the group, in its order.
        return list(range(self.get_world_size()))


class _SerialModel(ComputationModel):
    """A process that is alone: rank 0 of 1. Its calls are checked like those of many ranks."""

    name = "serial"

    def __init__(self, _backend=None, **kwargs):
        pass

    def get_rank(self):
        return 0

    def get_world_size(self):
        return 1

    get_local_rank = get_node_rank = get_rank
    get_nproc_per_node = get_nnodes = get_world_size

    def device(self):
        if torch.cuda.is_available():
            return torch.device("cuda")
        if torch.backends.mps.is_available():
            return torch.device("mps")
        return torch.device("cpu")

    def backend(self):
        return None

    def finalize(self):
        pass

    @staticmethod
    def create_from_context():
        return _SerialModel()

    @staticmethod
    def create_from_backend(backend=None, **kwargs):
        return _SerialModel()

    @staticmethod
    def spawn(*args, **kwargs):
        raise NotImplementedError("Serial computation model does not implement spawn method")

    def barrier(self, group=None):
        self._setup_group(group)

    def broadcast(self, tensor, src=0, safe_mode=False, group=None):
        if tensor is None:
            raise ValueError("Argument tensor should not be None")
        return super().broadcast(tensor, src, safe_mode, group)

    def _setup_group(self, group):
        # A program that was written for several processes may be tried with one: its groups are lists here, and any rank may be in them.
        if group is not None and not is_list_of_ranks(group):
            raise ValueError(f"Argument group should be list of int or ProcessGroup, got {type(group)}, group={group}")
        return None

    def _do_all_reduce(self, tensor, op, group=None):
        pass

    def _do_all_gather(self, tensor, group=None):
        return tensor.clone()

    def _do_broadcast(self, tensor, src, group=None):
        pass

    def _do_new_group(self, ranks, **kwargs):
        return ranks

    def _rank_not_in_group(self, group):
        return False
