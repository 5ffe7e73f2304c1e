#pragma once

#include "../docstrings.h"

// The docstrings of a process's place in its job, and of its last calls.

namespace unisono::python::docs {

inline constexpr const char* rank = R"(Tells the rank of this process in the world.

Returns
-------
int
    From 0 to world_size() - 1; 0 in a process that was not launched.

Raises
------
NotInitialized
    In a launched process that has not called `initialize`, and in a child of fork.

Examples
--------
>>> unisono.rank() in range(unisono.world_size())
True)";

inline constexpr const char* world_size = R"(Tells how many processes the job has.

Returns
-------
int
    1 in a process that was not launched.

Raises
------
NotInitialized
    In a launched process that has not called `initialize`, and in a child of fork.

Examples
--------
{two ranks}
>>> unisono.world_size()
2)";

inline constexpr const char* local_rank = R"(Tells the rank of this process among those of its host.

Returns
-------
int
    From 0 to nproc_per_node() - 1.

Raises
------
NotInitialized
    In a launched process that has not called `initialize`, and in a child of fork.

Examples
--------
>>> unisono.local_rank() in range(unisono.nproc_per_node())
True)";

inline constexpr const char* nproc_per_node = R"(Tells how many processes of the job run on this host.

Returns
-------
int
    Hosts may have different numbers of processes.

Raises
------
NotInitialized
    In a launched process that has not called `initialize`, and in a child of fork.

Examples
--------
On each of two ranks of one host:

>>> unisono.nproc_per_node()
2)";

inline constexpr const char* nnodes = R"(Tells how many hosts the job has.

Returns
-------
int
    They are counted, also if they have different numbers of processes.

Raises
------
NotInitialized
    In a launched process that has not called `initialize`, and in a child of fork.

Examples
--------
On each of two ranks of one host:

>>> unisono.nnodes()
1)";

inline constexpr const char* node_rank = R"(Tells the number of this host in the job.

Returns
-------
int
    From 0 to nnodes() - 1, in the order of each host's lowest rank.

Raises
------
NotInitialized
    In a launched process that has not called `initialize`, and in a child of fork.

Examples
--------
>>> unisono.node_rank() in range(unisono.nnodes())
True)";

inline constexpr const char* dist_info = R"(Tells the rank of this process and the number of processes.

Returns
-------
tuple of int and int
    The values of `rank` and `world_size`.

Raises
------
NotInitialized
    In a launched process that has not called `initialize`, and in a child of fork.

Examples
--------
>>> rank, size = unisono.dist_info())";

inline constexpr const char* hostname = R"(Tells the name of this host.

Returns
-------
str
    The name that the system has.

Examples
--------
On each of two ranks of one host:

>>> len(set(unisono.all_gather_object(unisono.hostname())))
1)";

inline constexpr const char* device = R"(Tells the device that this process computes on.

Returns
-------
Device
    With backend nccl the GPU of this process, otherwise the cpu.

Raises
------
NotInitialized
    In a launched process that has not called `initialize`, and in a child of fork.

Examples
--------
With a backend for the host's memory; `x.to(str(unisono.device()))` moves a tensor of PyTorch:

>>> str(unisono.device())
'cpu')";

inline constexpr const char* backend = R"(Tells the backend of the world.

Returns
-------
str or None
    Its name, as "native"; None in a process that is alone.

Raises
------
NotInitialized
    In a launched process that has not called `initialize`, and in a child of fork.

Examples
--------
On each of two ranks of one host:

>>> unisono.backend()
'native')";

inline constexpr const char* model_name = R"(Tells how the processes are distributed, in the words of ignite.

Returns
-------
str
    "serial" in a process that is alone, otherwise the backend with "-dist".

Raises
------
NotInitialized
    In a launched process that has not called `initialize`, and in a child of fork.

Examples
--------
On each of two ranks of one host:

>>> unisono.model_name()
'native-dist')";

inline constexpr const char* available_backends = R"(Lists the backends that can be used here.

Returns
-------
list of str
    Their names. Before `initialize` no device is started for the answer.

Examples
--------
>>> {"native", "serial", "tcp"} <= set(unisono.available_backends())
True)";

inline constexpr const char* is_backend_available = R"(Tells whether a backend can be used here.

Parameters
----------
name : str
    The name of a backend, as "nccl".

Returns
-------
bool
    False for a name that nobody knows.

Examples
--------
>>> unisono.is_backend_available("tcp")
True)";

inline constexpr const char* sync = R"(Joins a job that somebody else has formed in this process, such as MPI's.

It does nothing if the process has joined a job already, or if there is none.

Parameters
----------
temporary : bool, default False
    Whether the process leaves the job at the next `sync`, and not at `finalize`.

Examples
--------
>>> unisono.sync()                               # joined already, by initialize
>>> unisono.is_initialized()
True)";

inline constexpr const char* set_local_rank = R"(Says what `local_rank` shall return, where the launcher does not say it.

Parameters
----------
index : int
    The local rank from the next `initialize` on.

Raises
------
InvalidArgument
    If it is negative.

Examples
--------
>>> unisono.set_local_rank(unisono.local_rank()))";

inline constexpr const char* infer_launcher = R"(Tells what has started this process, as far as its environment says.

If launchers are nested, it is the innermost one that tells each process its rank. It may be
called before `initialize`.

Returns
-------
Launcher
    `Launcher.none` for a process that nobody has launched.

Examples
--------
Under `unisono run`:

>>> unisono.infer_launcher().name
'unisono')";

inline constexpr const char* launcher_local_rank = R"(Tells the local rank that the launcher says, also before `initialize`.

Returns
-------
int or None
    None where the launcher says none, or there is no launcher.

Examples
--------
>>> device_index = unisono.launcher_local_rank() or 0)";

inline constexpr const char* is_torchelastic_launched = R"(Tells whether torchrun has started this process.

`infer_launcher` says so as well where somebody has set the variables of torchrun by hand.

Returns
-------
bool
    It may be asked for before `initialize`.

Examples
--------
Under `unisono run`:

>>> unisono.is_torchelastic_launched()
False)";

inline constexpr const char* finalize = R"(Leaves the job, and waits at most 10 s for what is under way.

A second call does nothing. A program that ends without it leaves then. A library that somebody
else has initialised, such as the program's own MPI, is left alone.

Examples
--------
Alone:

>>> unisono.finalize()
>>> unisono.is_initialized()
False)";

inline constexpr const char* is_initialized = R"(Tells whether this process has joined a job, and has not left it.

Returns
-------
bool
    In a thread of `run_threads` True.

Examples
--------
>>> unisono.is_initialized()
True)";

}  // namespace unisono::python::docs
