#pragma once

#include "../docstrings.h"

// The docstrings of the last calls, and of the types that tell where a process is.

namespace unisono::python::docs {

inline constexpr const char* record = R"(Returns the last calls of this rank, the latest one last.

It may be called at any time by any thread, and after a failure as well.

Returns
-------
list of CallRecord
    At most 1024 calls of the thread that called `initialize`, and 256 of all others.

Raises
------
NotInitialized
    In a launched process that has not called `initialize`, and in a child of fork.

Examples
--------
>>> unisono.barrier()
>>> call = unisono.record()[-1]
>>> call.operation, call.group, call.state.name
('barrier', 'world', 'done'))";

inline constexpr const char* device_class = R"(A place where memory lies: the cpu, or a GPU with its number.

Attributes
----------
type : str
    "cpu" or "cuda".
index : int
    The number of the device.

Examples
--------
With a backend for the host's memory:

>>> device = unisono.device()
>>> device.type, device.index, str(device)
('cpu', 0, 'cpu'))";

inline constexpr const char* launcher = R"(The program that has started this process, as far as its environment tells.

Attributes
----------
none
    Nobody has launched it.
unisono
    `unisono run`.
torchrun
    torchrun, or anything else that sets RANK and WORLD_SIZE.
slurm
    srun.
openmpi
    The mpirun of Open MPI.
pmi
    A launcher that speaks PMI, such as that of MPICH.
horovod
    horovodrun.

Examples
--------
Under `unisono run`:

>>> unisono.infer_launcher() is unisono.Launcher.unisono
True)";

inline constexpr const char* call_record = R"(A call of this rank: what `record` returns.

Attributes
----------
operation : str
    The function that the program called: "all_reduce".
group : str
    The name of the group.
place : str or None
    The line of the program, as "train.py:57"; None if it is not known.
state : CallRecord.State
    queued, running, waiting, done or failed.
sequence : int
    The number of the call in its group, from 1.
bytes : int
    The bytes that this rank gives, or takes where it gives none.
dtype : str
    The dtype as NumPy calls it: "float32".
peer : int or None
    The root, the source or the destination, by its rank in the world.
queued, begun, done : float or None
    When an asynchronous call was posted, when the call began, and when it was over, in
    seconds of time.monotonic(). `begun` is None for a call of less than 4 KiB that did not
    wait, and `done` while it goes on.
waited_for : int or None
    The first of the ranks that the call waited for, by its rank in the world.
waited_for_count : int
    The number of ranks that it waited for.

Examples
--------
>>> x = unisono.broadcast(numpy.zeros(3, numpy.float32), src=1)
>>> call = unisono.record()[-1]
>>> call.operation, call.bytes, call.dtype, call.peer
('broadcast', 12, 'float32', 1))";

}  // namespace unisono::python::docs
