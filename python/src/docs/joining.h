#pragma once

#include "../docstrings.h"

// The docstrings of the ways into a job.

namespace unisono::python::docs {

inline constexpr const char* init_options = R"(The way in which a process joins its job: the arguments of `initialize` as one object.

Parameters
----------
backend : str, default "auto"
    As in `initialize`, like all of them.
init_method : str, default "env://"
    The place where the processes meet.
rank, world_size, local_rank : int, optional
    The numbers of this process, if no launcher tells them.
group_name : str, default ""
    A name by which several jobs share a file or a multicast address.
timeout : float or timedelta, optional
    The seconds of every call that says nothing else.
store : Store, optional
    The store in which the processes meet, in place of `init_method`.

Attributes
----------
backend, init_method, group_name : str
    As given.
rank, world_size, local_rank : int or None
    As given.
timeout : float
    The seconds.
store : Store or None
    As given.

Examples
--------
>>> options = unisono.InitOptions("tcp", timeout=60)
>>> options.backend, options.timeout, options.rank
('tcp', 60.0, None))";

inline constexpr const char* rendezvous = R"(The result of the handler of a scheme: a store to meet in, and the numbers of this process.

Parameters
----------
store : Store
    The store in which the processes meet.
rank : int, default 0
    The rank of this process.
world_size : int, default 1
    The number of processes.

Attributes
----------
store : Store
    As given.
rank, world_size : int
    As given.

Raises
------
InvalidArgument
    If `store` is None.

See Also
--------
register_rendezvous_handler : Adds a handler.

Examples
--------
>>> rendezvous = unisono.Rendezvous(unisono.MemoryStore(), rank=0, world_size=1)
>>> rendezvous.rank, rendezvous.world_size
(0, 1))";

inline constexpr const char* register_rendezvous_handler = R"(Lets `initialize` ask a function for the place where the processes of a job meet.

Parameters
----------
scheme : str
    The function is asked for `init_method="SCHEME://…"` from now on.
handler : callable
    A function of the InitOptions that returns a Rendezvous. It may wait, and raise; it cannot
    call `initialize`, `finalize` or `sync`.

Raises
------
InvalidArgument
    For a scheme that is malformed or has a handler already.

Examples
--------
>>> def meet(options):
...     host, port = options.init_method.removeprefix("board://").split(":")
...     store = unisono.TcpStore(host, int(port), is_server=options.rank == 0)
...     return unisono.Rendezvous(store, options.rank, options.world_size)
>>> unisono.register_rendezvous_handler("board", meet)

Then `unisono.initialize(init_method="board://10.0.0.1:29500", rank=0, world_size=2)` joins.)";

inline constexpr const char* register_context_probe = R"(Adds a function that tells how to join a job that somebody else has formed in this process.

`sync`, and what else joins such a job, ask the functions in the order of registration until one
knows a job.

Parameters
----------
probe : callable
    A function without arguments that returns InitOptions, or None if there is no job.

Raises
------
InvalidArgument
    If `probe` is not a function.

Examples
--------
>>> def find_job():
...     return None                              # or InitOptions(rank=…, world_size=…, store=…)
>>> unisono.register_context_probe(find_job))";

}  // namespace unisono::python::docs
