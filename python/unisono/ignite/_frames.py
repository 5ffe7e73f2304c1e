"""Values as bytes: numbers, texts, paths and objects travel in frames of fixed size, with a second message only for what does not fit.

A frame is a uint8 tensor of FRAME elements: the length of the payload (8 bytes), its kind (1 byte, then 7 unused), and the first INLINE bytes of the payload.
The rest of a longer payload follows in one more collective. Every rank sees all lengths in the frames, so all agree on whether there is one.
"""

import json
import os
import pickle
import struct
from pathlib import Path

import torch

from .. import _pickles

FRAME = 256
HEADER = 16
INLINE = FRAME - HEADER

ERROR, INT, FLOAT, COMPLEX, BOOL, STR, PATH, TENSOR, OBJECT = range(9)


def dtype_name(dtype):
    return str(dtype).removeprefix("torch.")


def _dtype(name):
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise RuntimeError(f"{name!r} is not a dtype of this PyTorch: the ranks have different ones")
    return dtype


def encode(value):
    """(kind, bytes) of a value that is not a tensor. Types are exact: what is not one of Python's own goes by pickle."""
    kind = type(value)
    if kind is bool:
        return BOOL, bytes([value])
    if kind is int:
        return INT, value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    if kind is float:
        return FLOAT, struct.pack("<d", value)
    if kind is complex:
        return COMPLEX, struct.pack("<dd", value.real, value.imag)
    if kind is str:
        return STR, value.encode("utf-8", "surrogatepass")
    if isinstance(value, Path):
        return PATH, os.fsencode(value)
    _pickles.check("unisono.ignite")
    return OBJECT, pickle.dumps(value, protocol=5)


def encode_shape(tensor):
    """(kind, bytes) that describe a tensor, which itself follows as one."""
    return TENSOR, json.dumps([dtype_name(tensor.dtype), list(tensor.shape)]).encode()


def encode_error(text):
    return ERROR, text.encode("utf-8", "replace")


def decode(kind, payload):
    """The value of encode. Of encode_shape: (dtype, shape). An error is raised as ValueError."""
    if kind == BOOL:
        return payload != b"\0"
    if kind == INT:
        return int.from_bytes(payload, "little", signed=True)
    if kind == FLOAT:
        return struct.unpack("<d", payload)[0]
    if kind == COMPLEX:
        return complex(*struct.unpack("<dd", payload))
    if kind == STR:
        return payload.decode("utf-8", "surrogatepass")
    if kind == PATH:
        return Path(os.fsdecode(payload))
    if kind == TENSOR:
        name, shape = json.loads(payload)
        return _dtype(name), shape
    if kind == OBJECT:
        return _pickles.loads("unisono.ignite", payload)
    if kind == ERROR:
        raise ValueError(payload.decode())
    raise RuntimeError(f"a value of unknown kind {kind} arrived: the ranks run different versions")


def _head(kind, payload):
    frame = bytearray(FRAME)
    struct.pack_into("<QB", frame, 0, len(payload), kind)
    inline = payload[:INLINE]
    frame[HEADER : HEADER + len(inline)] = inline
    return torch.frombuffer(frame, dtype=torch.uint8)


def _rest(payload, length):
    rest = bytearray(length)
    payload = payload[INLINE:]
    rest[: len(payload)] = payload
    return torch.frombuffer(rest, dtype=torch.uint8)


def _bytes(tensor):
    return tensor.cpu().numpy().tobytes()


def gather(kind, payload, all_gather):
    """[(kind, bytes)] of every rank. all_gather(tensor) concatenates the uint8 tensors of all ranks."""
    heads = _bytes(all_gather(_head(kind, payload)))
    infos = [struct.unpack_from("<QB", heads, at) for at in range(0, len(heads), FRAME)]
    longest = max(length for length, _ in infos) - INLINE
    rests = _bytes(all_gather(_rest(payload, longest))) if longest > 0 else b""
    results = []
    for i, (length, its_kind) in enumerate(infos):
        inline = heads[i * FRAME + HEADER : (i + 1) * FRAME][:length]
        rest = rests[i * longest : i * longest + length - INLINE] if length > INLINE else b""
        results.append((its_kind, inline + rest))
    return results


def broadcast(kind, payload, is_src, send):
    """(kind, bytes) of the rank whose is_src is true. send(tensor) is a broadcast in place, and returns the tensor."""
    head = _bytes(send(_head(kind, payload) if is_src else torch.zeros(FRAME, dtype=torch.uint8)))
    length, kind = struct.unpack_from("<QB", head)
    result = head[HEADER:][:length]
    if length > INLINE:
        result += _bytes(send(_rest(payload, length - INLINE) if is_src else torch.zeros(length - INLINE, dtype=torch.uint8)))
    return kind, result
