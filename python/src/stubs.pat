unisono._core.__prefix__:
    import collections.abc
    import datetime
    import typing

    from ._types import Buffer, Counts, Op, RankLike, Seconds, X

    __version__: str

unisono._core.WithPlace.__reduce__$:
    def __reduce__(self) -> tuple[typing.Any, ...]: ...

# What unisono._habits adds for those who know other names.
unisono._core.ReduceOp.[A-Z]+$:

unisono._core.ProcessGroup.__getattr__$:
