unisono._core.__prefix__:
    import collections.abc
    import datetime
    import typing

    from ._types import Buffer, Counts, Op, RankLike, Seconds, X

    __version__: str
