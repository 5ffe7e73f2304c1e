#pragma once

#include "../docstrings.h"

// The docstrings of messages that are looked at before they are received, and of their types.

namespace unisono::python::docs {

inline constexpr const char* probe = R"(Waits for a message and tells what it is, without receiving it.

A receive from that source with that tag takes it. A message for which an earlier `irecv` waits
is passed over.

Parameters
----------
src : int, GlobalRank or AnySource
    The sender's rank within the group; `any_source` looks at the next message of any rank.
{group}
{timeout}
{received_tag}

Returns
-------
MessageInfo
    The sender, the tag, the dtype and the length of the message.

Raises
------
InvalidArgument
    For a message from this rank itself, and for a rank outside the group.
Unsupported
    If the message lies in the memory of a device.
{failures}

Examples
--------
{two ranks}
>>> unisono.send(numpy.arange(3.0), 1 - unisono.rank(), tag=5)
>>> info = unisono.probe(unisono.any_source, tag=unisono.any_tag)
>>> info.count, info.dtype, info.tag
(3, 'float64', 5)
>>> x = numpy.empty(info.count, info.dtype)
>>> unisono.recv(x, info.source, tag=info.tag) == info.source
True)";

inline constexpr const char* try_probe = R"(Tells which message has come, without waiting for one.

Parameters
----------
src : int, GlobalRank or AnySource
    The sender's rank within the group; `any_source` looks at the next message of any rank.
{group}
{timeout}
{received_tag}

Returns
-------
MessageInfo or None
    The result of `probe`; None if no message has come yet.

Raises
------
InvalidArgument
    For a message from this rank itself, and for a rank outside the group.
Unsupported
    If the message lies in the memory of a device.
{failures}

Examples
--------
{two ranks}
>>> unisono.try_probe(unisono.any_source) is None
True)";

inline constexpr const char* message_info = R"(A message as it is known before it is received: what `probe` returns.

Attributes
----------
source : int
    The sender's rank within the group.
tag : int
    The number of the message.
dtype : str
    The dtype as NumPy calls it: "float32".
count : int
    The number of elements.
nbytes : int
    The number of bytes.
is_object : bool
    Whether `send_object` has sent it. `recv_object` takes it, and its length is known then.

Examples
--------
{two ranks}
>>> unisono.send(numpy.zeros(4, numpy.float32), 1 - unisono.rank())
>>> info = unisono.probe(1 - unisono.rank())
>>> info.count, info.nbytes, info.dtype, info.is_object
(4, 16, 'float32', False)
>>> x = unisono.recv_array(info.source))";

inline constexpr const char* p2p_op = R"(One message of a `batch`: P2POp.send(x, dst) or P2POp.recv(x, src).

It begins nothing by itself. The memory of `x` belongs to the library from the call of `batch`
until the Work is done.

Methods
-------
send(x, dst)
    A message of the buffer `x` to rank `dst` of the group.
recv(x, src)
    A message from rank `src` of the group, or from `any_source`, into the buffer `x`.

Examples
--------
{two ranks}
>>> other, y = 1 - unisono.rank(), numpy.empty(3)
>>> messages = [unisono.P2POp.send(numpy.ones(3), other), unisono.P2POp.recv(y, other)]
>>> unisono.wait_all(unisono.batch(messages)))";

inline constexpr const char* any_source = R"(The type of `any_source`, the source of a receive that takes a message from any rank.

Examples
--------
{two ranks}
>>> unisono.send(numpy.ones(1), 1 - unisono.rank())
>>> unisono.recv(numpy.empty(1), unisono.any_source) == 1 - unisono.rank()
True)";

}  // namespace unisono::python::docs
