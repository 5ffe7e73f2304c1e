"""The types of arguments, for type checkers."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, Union

if TYPE_CHECKING:
    from ._core import GlobalRank, PremulSum, ReduceOp

#: anything with the buffer protocol, DLPack or __cuda_array_interface__: NumPy, PyTorch, CuPy, JAX, pyarrow, memoryview, bytearray, array.array
Buffer: TypeAlias = Any
X = TypeVar("X")
Op: TypeAlias = "Union[ReduceOp, PremulSum, str, Callable[[Any, Any], Any]]"
RankLike: TypeAlias = "Union[int, GlobalRank]"
Counts: TypeAlias = Iterable[int]
Seconds: TypeAlias = Union[float, datetime.timedelta, None]
