"""Collectives on objects, which travel by pickle, and results of an evaluation."""

import contextlib
import hashlib
import os
import pickle
import secrets
import stat

import numpy
import torch
from torch import distributed

from .. import _pickles
from . import _ranks
from ._collectives import broadcast


def sync_random_seed(group=None):
    """A seed that is equal on all ranks of the group. Its rank 0 draws it from NumPy's generator; that of the others stays as it is."""
    _ranks.member_size(group)
    seed = torch.tensor(numpy.random.randint(2**31) if _ranks.is_main_process(group) else 0)
    broadcast(seed, 0, group)
    return seed.item()


def broadcast_object_list(data, src=0, group=None, device=None):
    """Replaces the elements of the list on every rank by those of rank `src` of the group. The lists are of equal length.

    device: on which the bytes travel, as in torch.distributed; the group's own where it is None. AssertionError: no list. ValueError: the group has no rank `src`.
    """
    if not isinstance(data, list):
        raise AssertionError(f"data should be a list, but got {type(data)}")
    size = _ranks.member_size(group)
    _ranks.check_root(src, size, "src")
    if size == 1:
        return
    is_source = _ranks.get_rank(group) == src
    own, error = _pickles.dumps("broadcast_object_list", data) if is_source else (b"", None)
    parcels = [(own, error is not None)]
    distributed.broadcast_object_list(parcels, group=group, group_src=src, device=device)
    _pickles.check_all("broadcast_object_list", {src: parcels[0]}, error)
    if is_source:
        return
    received = _pickles.loads("broadcast_object_list", parcels[0][0])
    if len(received) != len(data):
        raise ValueError(f"broadcast_object_list: the list of rank {src} has {len(received)} elements, and that of this rank {len(data)}")
    data[:] = received


def all_gather_object(data, group=None):
    """A list of every rank's object, in the order of the group. They are copies, also alone. Of an object that pickle refuses every rank learns: ValueError."""
    size = _ranks.member_size(group)
    if size == 1:
        return [_copy(data)]
    own, error = _pickles.dumps("all_gather_object", data)
    parcels = [None] * size
    distributed.all_gather_object(parcels, (own, error is not None), group)
    return _pickles.loads_all("all_gather_object", parcels, error)


def gather_object(data, dst=0, group=None):
    """As `all_gather_object` on rank `dst` of the group; None elsewhere. ValueError where the group has no rank `dst`."""
    rank, size = _ranks.get_rank(group), _ranks.member_size(group)
    _ranks.check_root(dst, size, "dst")
    if size == 1:
        return [_copy(data)]
    own, error = _pickles.dumps("gather_object", data)
    failures = [None] * size  # only rank dst gets the objects, and every rank is to know of one that cannot be sent
    distributed.all_gather_object(failures, (own if error else b"", error is not None), group)
    _pickles.check_all("gather_object", failures, error)
    parcels = [None] * size if rank == dst else None
    distributed.gather_object((own, False), parcels, group=group, group_dst=dst)
    return None if parcels is None else _pickles.loads_all("gather_object", parcels)


def _copy(data):
    return pickle.loads(pickle.dumps(data))


def collect_results(results, size, device="cpu", tmpdir=None):
    """The results of all ranks on rank 0, in the order of the data set; None elsewhere. All ranks call it.

    Rank r's item i was made from sample `i * world_size + r`, as DistributedSampler shares them out. At most `size` are kept, which drops its padding.
    Parts may be of different length, and None is a result. device: "cpu", "gpu" or "npu", of which only "cpu" may have a `tmpdir`. With it the parts travel
    through files in that folder, which all ranks see; without it they are sent. NotImplementedError: another device. AssertionError: a tmpdir with another.
    """
    if device not in ("cpu", "gpu", "npu"):
        raise NotImplementedError(f"device must be 'cpu' , 'gpu' or 'npu', but got {device}")
    if device == "cpu":
        return collect_results_cpu(results, size, tmpdir)
    if tmpdir is not None:
        raise AssertionError(f"tmpdir should be None when device is {device}")
    return collect_results_gpu(results, size)


def collect_results_gpu(result_part, size):
    """`collect_results` by messages, on every backend. Returns a list on rank 0, and None elsewhere."""
    if _ranks.get_world_size() == 1:
        return result_part[:size]
    parts = gather_object(result_part)
    return None if parts is None else _interleaved(parts, size)


def collect_results_cpu(result_part, size, tmpdir=None):
    """`collect_results` through files in `tmpdir`, or by messages where that is None. Returns a list on rank 0, and None elsewhere.

    The folder is made if it is missing, and stays; the files, whose names nobody can guess, go. On every rank FileNotFoundError where rank 0 does not
    see the file of another, PermissionError where it is somebody else's, and OSError where its content is not what was written.
    """
    rank, ranks = _ranks.get_dist_info()
    if ranks == 1 or tmpdir is None:
        return collect_results_gpu(result_part, size)
    drawn = torch.frombuffer(bytearray(secrets.token_bytes(16)), dtype=torch.uint8)
    broadcast(drawn)  # of rank 0
    name = f".unisono-{drawn.numpy().tobytes().hex()}-part-"
    own = os.path.join(tmpdir, f"{name}{rank}")
    digests, parts = [], []
    failure = _attempt(lambda: digests.append(_write(own, result_part)))
    outcomes = all_gather_object((failure, *digests))
    failures = [outcome[0] for outcome in outcomes]
    if rank == 0 and not any(failures):
        failures.append(_attempt(lambda: parts.extend(_read(tmpdir, name, r, outcomes[r][1]) for r in range(ranks))))
    verdict = [next(filter(None, failures), None)]
    broadcast_object_list(verdict)
    if not isinstance(failure, FileExistsError):  # which is somebody else's
        with contextlib.suppress(OSError):
            os.remove(own)
    if verdict[0] is not None:
        raise verdict[0]
    return _interleaved(parts, size) if rank == 0 else None


def _write(path, part):
    """Writes the part into a new file. Returns the hash by which rank 0 knows it."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    data = pickle.dumps(part)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(data)
    return hashlib.sha256(data).digest()


def _read(tmpdir, name, rank, digest):
    """The part of a rank, whose file is as that rank has written it: it came by the folder, the hash by the group."""
    path = os.path.join(tmpdir, f"{name}{rank}")
    try:
        file = open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    except FileNotFoundError:
        raise FileNotFoundError(f"{tmpdir} is not a shared directory for rank {rank}: rank 0 does not see what it wrote there") from None
    with file:
        found, own = os.fstat(file.fileno()), os.stat(os.path.join(tmpdir, f"{name}0"), follow_symlinks=False)
        # As this rank's own file looks there: some file systems have owners and modes of their own.
        if not stat.S_ISREG(found.st_mode) or found.st_uid != own.st_uid or found.st_mode & ~own.st_mode & 0o022:
            raise PermissionError(f"{path} belongs to another user or can be written by one")
        data = file.read()
    if hashlib.sha256(data).digest() != digest:
        raise OSError(f"{path} is not what rank {rank} has written")
    return pickle.loads(data)


def _attempt(action):
    try:
        action()
    except Exception as error:
        return error if isinstance(error, OSError) else RuntimeError(f"{type(error).__name__}: {error}")
    return None


def _interleaved(parts, size):
    longest = max(map(len, parts))
    return [part[i] for i in range(longest) for part in parts if i < len(part)][:size]
