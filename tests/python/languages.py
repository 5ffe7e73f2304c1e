"""One rank of a job whose other is a program in C++: languages.cpp makes the same calls."""

import pathlib

import numpy as np

import unisono

with unisono.Context():
    rank, size = unisono.rank(), unisono.world_size()
    for dtype in ("int64", "float64", "float32", "int8", "complex128"):
        x = (np.arange(1000) % 7 + rank).astype(dtype)
        unisono.all_reduce(x)
        assert (x == (np.arange(1000) % 7 * size + size * (size - 1) // 2).astype(dtype)).all(), dtype
        own = {"int64": rank + 1, "float64": rank + 1.0, "complex128": complex(rank + 1)}.get(dtype, np.dtype(dtype).type(rank + 1))
        assert unisono.all_reduce(own) == size * (size + 1) // 2, dtype

    mine = np.full(3, rank, "float32")
    assert unisono.all_gather(mine)[1].tolist() == [1, 1, 1]
    gathered, counts = unisono.all_gather_v(np.full(rank + 1, rank, "int32"))
    assert counts == [1, 2] and gathered.tolist() == [0, 1, 1]
    assert unisono.mean(rank + 0.5) == size / 2
    unisono.sync_random_seed()
    entries = {"b": np.array([3], "float32"), "a": np.array([1, 2], "float32")}
    unisono.all_reduce_dict(entries)
    assert entries["a"].tolist() == [size, 2 * size]

    unisono.recv(mine, 0, tag=5)
    assert mine.tolist() == [0, 0, 0]
    unisono.send(np.ones(7, "float32"), 0)
    half = unisono.split_group(unisono.world(), 0, -rank)
    assert half.global_rank(0) == size - 1
    unisono.barrier(half)
    with unisono.OneRankFirst():
        pass

    assert unisono.broadcast_any(None, 0) == "from C++"
    unisono.broadcast_any(np.ones((2, 3), "float32"), 1)
    unisono.broadcast_any(2.5, 1)
    unisono.broadcast_any(pathlib.Path("/tmp/x"), 1)

    for call in (lambda: unisono.all_reduce(mine, "min"), lambda: unisono.all_gather_object("x")):
        try:
            call()
        except unisono.Mismatch:
            continue
        raise SystemExit("no Mismatch")

    unisono.send_object({"a": 1}, 0)
    unisono.send_object([np.ones(100_000), np.ones(50_000)], 0)
    try:
        unisono.recv_object(0)
    except unisono.Mismatch as error:
        assert error.culprit == 0
    else:
        raise SystemExit("no Mismatch")
    unisono.send(np.array([1, 2], "int32"), 0)

    # Objects of Python as another version of the package would write them.
    for call in (lambda: unisono.all_gather_object("x"), lambda: unisono.recv_object(0)):
        try:
            call()
        except unisono.Mismatch as error:
            assert "of another version" in str(error) or "Python (pickled, format 0) on rank 0" in str(error), error
        else:
            raise SystemExit("no Mismatch")

    # What both languages have of an elastic job's state: buffers, and bytes that the program writes. Objects differ.
    texts = []
    state = unisono.ElasticState(weights=np.full(3, rank, "float32"))
    state.bytes("text", lambda: b"from Python", lambda text: lambda: texts.append(text))
    state.step = 5
    assert unisono.synchronize(state) == 1 and state.step == 5 and state.weights.tolist() == [1] * 3 and texts == []
    assert unisono.synchronize(state) == 0 and state.step == 6 and state.weights.tolist() == [0.5] * 3 and texts == [b"from C++"]
    state.object("number", 1)
    try:
        unisono.synchronize(state)
    except unisono.Mismatch as error:
        assert 'object "number" (an object of Python' in str(error), error
    else:
        raise SystemExit("no Mismatch")

    sampler = unisono.DistributedSampler(20, num_replicas=3, rank=1, seed=5)
    sampler.set_epoch(4)
    theirs = unisono.recv_array(0).tobytes().decode().split()
    assert theirs == [str(i) for i in sampler], theirs
    unisono.barrier()
    print("fine")
