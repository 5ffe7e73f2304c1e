#pragma once

#include "../docstrings.h"

// The docstrings of objects between two ranks.

namespace unisono::python::docs {

inline constexpr const char* send_object = R"(Sends an object to rank `dst`, where `recv_object` takes it.

An object of up to 64 KiB does not wait for its receive; a larger one does.

Parameters
----------
x : object
    Anything that pickle takes.
dst : int or GlobalRank
    The receiver's rank within the group.
{group}
{timeout}
{sent_tag}

Raises
------
InvalidArgument
    For a message to this rank itself, a rank outside the group, an object that is larger than
    `object_limits()`, and where pickles are refused: UNISONO_PICKLE=off, or hosts without a
    token.
Exception
    The exception of pickle, if the object cannot be pickled. Nothing is sent then.
{failures}

Examples
--------
{two ranks}
>>> other = 1 - unisono.rank()
>>> unisono.send_object({"rank": unisono.rank()}, other)
>>> unisono.recv_object(other) == {"rank": other}
True)";

inline constexpr const char* recv_object = R"(Receives the next object that rank `src` has sent.

Parameters
----------
src : int, GlobalRank or AnySource
    The sender's rank within the group; `any_source` takes the next object of any rank.
{group}
{timeout}
{received_tag}

Returns
-------
object
    A copy of what was sent.

Raises
------
InvalidArgument
    For a message from this rank itself, a rank outside the group, an object that is larger
    than `object_limits()` and is gone then, and where pickles are refused.
Mismatch
    If the message is one of `send`, or an object of C++.
ProtocolError
    If the code that travels with the object does not fit it.
{failures}

Examples
--------
{two ranks}
>>> unisono.send_object(("task", 7), 1 - unisono.rank())
>>> unisono.recv_object(unisono.any_source)
('task', 7))";

}  // namespace unisono::python::docs
