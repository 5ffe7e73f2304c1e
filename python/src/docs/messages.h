#pragma once

#include "../docstrings.h"

// The docstrings of messages between two ranks.

namespace unisono::python::docs {

inline constexpr const char* send = R"(Sends a buffer or a number to rank `dst`.

It returns once `x` may be changed. A message of up to 64 KiB does not wait for its receive; a
longer one does, and so does one in the memory of a device. Messages are matched by sender,
receiver and tag, in the order in which they were sent.

Parameters
----------
x : buffer or number
    A buffer of any length. A number is a message of one element.
dst : int or GlobalRank
    The receiver's rank within the group.
{group}
{timeout}
{sent_tag}

Raises
------
InvalidArgument
    For a message to this rank itself, and for a rank outside the group.
{failures}

Examples
--------
{two ranks}
>>> if unisono.rank() == 0:
...     unisono.send(numpy.arange(3), 1)
... else:
...     received = numpy.empty(3, dtype=int)
...     sender = unisono.recv(received, 0))";

inline constexpr const char* isend = R"(Starts to send a buffer to rank `dst`, and returns at once.

Parameters
----------
x : buffer
    A buffer of any length. It belongs to the library until the Work is done.
dst : int or GlobalRank
    The receiver's rank within the group.
{group}
{timeout}
{sent_tag}

Returns
-------
Work
    Its `wait` returns when `x` may be changed, and raises the errors of `send`.

Raises
------
InvalidArgument
    For a message to this rank itself, and for a rank outside the group.
{failures}

Examples
--------
{two ranks}
>>> other = 1 - unisono.rank()
>>> x, y = numpy.full(2, unisono.rank()), numpy.empty(2, dtype=int)
>>> works = [unisono.isend(x, other), unisono.irecv(y, other)]
>>> unisono.wait_all(works)
>>> y.tolist() == [other, other]
True)";

inline constexpr const char* recv = R"(Receives a message into `x`, and returns the rank of its sender.

Parameters
----------
x : buffer
    It has the length and dtype of the message.
src : int, GlobalRank or AnySource
    The sender's rank within the group; `any_source` takes the next message of any rank.
{group}
{timeout}
{received_tag}

Returns
-------
int
    The sender's rank within the group.

Raises
------
InvalidArgument
    For a message from this rank itself, a rank outside the group, or a read-only buffer.
Mismatch
    If the message has another length or dtype, or is an object. It is gone then.
{failures}

Examples
--------
{two ranks}
>>> x = numpy.empty(3)
>>> if unisono.rank() == 0:
...     unisono.send(numpy.ones(3), 1, tag=7)
... else:
...     assert unisono.recv(x, unisono.any_source, tag=7) == 0)";

inline constexpr const char* irecv = R"(Starts to receive a message into `x`, and returns at once.

Parameters
----------
x : buffer
    It has the length and dtype of the message, and belongs to the library until the Work is
    done.
src : int, GlobalRank or AnySource
    The sender's rank within the group; `any_source` takes the next message of any rank.
{group}
{timeout}
{received_tag}

Returns
-------
Work
    Its `source_rank` and `tag` tell whose message has come. Its `cancel` takes the receive
    back.

Raises
------
InvalidArgument
    For a message from this rank itself, a rank outside the group, or a read-only buffer.
Mismatch
    By the Work, if the message has another length or dtype. It is gone then.
{failures}

Examples
--------
{two ranks}
>>> other, y = 1 - unisono.rank(), numpy.empty(2)
>>> work = unisono.irecv(y, unisono.any_source)
>>> unisono.send(numpy.ones(2), other)
>>> work.wait()
>>> work.source_rank() == other
True)";

inline constexpr const char* recv_array = R"(Receives a message of any dtype and length as a new array of NumPy.

Parameters
----------
src : int, GlobalRank or AnySource
    The sender's rank within the group; `any_source` takes the next message of any rank.
{group}
{timeout}
{received_tag}

Returns
-------
numpy.ndarray
    A new array with one axis.

Raises
------
InvalidArgument
    For a message from this rank itself, and for a rank outside the group.
Mismatch
    If the message is an object, which `recv_object` takes.
Unsupported
    If the message lies in the memory of a device.
{failures}

Examples
--------
{two ranks}
>>> other = 1 - unisono.rank()
>>> unisono.send(numpy.arange(3.0), other)
>>> unisono.recv_array(other)
array([0., 1., 2.]))";

inline constexpr const char* send_recv = R"(Sends a message and receives another one at the same time.

Ranks so exchange messages of any size without waiting for each other in a circle.

Parameters
----------
x : buffer or number
    The data to send: a buffer, or with None for `y` a number.
dst : int or GlobalRank
    The receiver's rank within the group.
y : buffer or None
    The buffer for the received message, with its length and dtype. With None it is a number of the
    type of `x`, which is returned.
src : int, GlobalRank or AnySource
    The sender's rank within the group.
{group}
{timeout}
tag : int, default 0
    The number of both messages.

Returns
-------
int or number
    The sender's rank within the group; without `y` the number that has come.

Raises
------
InvalidArgument
    For a message to or from this rank itself, and for a rank outside the group.
Mismatch
    If the message that comes has another length or dtype. It is gone then.
{failures}

Examples
--------
{two ranks}
>>> right = left = 1 - unisono.rank()            # the neighbours in a ring of two
>>> mine, theirs = numpy.full(2, unisono.rank()), numpy.empty(2, dtype=int)
>>> unisono.send_recv(mine, right, theirs, left) == left
True
>>> unisono.send_recv(unisono.rank(), right, None, left) == left
True)";

inline constexpr const char* batch = R"(Starts several messages together, none of which waits for another.

Parameters
----------
operations : iterable of P2POp
    `P2POp.send(x, dst)` and `P2POp.recv(x, src)`. They are started in this order.
{group}
{timeout}
tag : int, default 0
    The number of all these messages.

Returns
-------
list of Work
    The i-th Work is that of the i-th message.

Raises
------
InvalidArgument
    If one of the messages is wrong by itself. Nothing is started then.
{failures}

Examples
--------
{two ranks}
>>> other, y = 1 - unisono.rank(), numpy.empty(1, dtype=int)
>>> works = unisono.batch([
...     unisono.P2POp.send(numpy.array([unisono.rank()]), other),
...     unisono.P2POp.recv(y, other),
... ])
>>> unisono.wait_all(works)
>>> y.tolist() == [other]
True)";

inline constexpr const char* recv_resized = R"(Receives a message into `x`, which becomes as long as the message.

Parameters
----------
x : bytearray or array.array
    A container of the message's dtype; that of a bytearray is uint8. `recv_array` returns a
    new array of NumPy instead.
src : int, GlobalRank or AnySource
    The sender's rank within the group; `any_source` takes the next message of any rank.
{group}
{timeout}
{received_tag}

Returns
-------
MessageInfo
    The data of the message.

Raises
------
InvalidArgument
    If `x` cannot change its length, as while a memoryview of it is held. Nothing is received
    then.
Mismatch
    If the message has another dtype. It is gone then, and `x` stays as it is.
{failures}

Examples
--------
{two ranks}
>>> import array
>>> unisono.send(numpy.arange(3.0), 1 - unisono.rank())
>>> numbers = array.array("d")
>>> unisono.recv_resized(numbers, unisono.any_source).count
3
>>> numbers
array('d', [0.0, 1.0, 2.0]))";

}  // namespace unisono::python::docs
