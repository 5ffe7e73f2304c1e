#pragma once

#include <concepts>
#include <initializer_list>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "unisono/detail/typed_edge.h"
#include "unisono/detail/message_request.h"
#include "unisono/detail/request.h"
#include "unisono/message_info.h"
#include "unisono/operation.h"
#include "unisono/process_group.h"
#include "unisono/tensor.h"
#include "unisono/work.h"

// Messages between two ranks of a group.
//
// A message is sent with send or isend and taken with recv or irecv. A receive takes a message
// whose sender, group and tag are those that it names (CallOptions::tag, 0 unless said); messages
// that fit the same receive are taken in the order in which they were sent. Length and dtype of
// message and receive are the same, else the receiver throws Mismatch; recv_resized and
// `recv<std::vector<T>>` learn the length from the message.
//
// ```cpp
// if (rank() == 0) send(x, 1);                       // a buffer, or a value: send(7, 1)
// if (rank() == 1) recv(x, 0);                       // into a buffer, or n = recv<int>(0)
// ```
//
// A message of up to 64 KiB in host memory leaves its sender without a matching receive, so that
// all ranks may send first and receive afterwards, as long as no more than 64 MiB of a rank's
// messages wait in a group, each counted with 1 KiB beside its elements. What waits is kept by its
// sender, but for 1 MiB or so that is kept by a receiver for each sender. A larger message waits
// for its receive, and so does one in the memory of a device.
//
// Every call throws InvalidArgument for a message to or from the caller itself, for a rank outside
// the group, and in a group of one. PeerFailed and Timeout end the group, as in a collective. In
// MPI a receive may be longer than its message; here that is Mismatch.

namespace unisono {

/// Sends a buffer or a value to rank `dst`, and returns when `x` may be changed again.
///
/// @param x `send(x, 1)` sends the elements of a buffer, `send(7, 1)` a single one
/// @param dst the receiver's rank within the group
template <detail::sendable In>
void send(const In& x, Rank dst, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  detail::run(detail::sent(x, dst), group, options);
}

/// Starts to send a buffer, or a value that is an lvalue, and returns at once. `x` belongs to the
/// library until the Work is done.
template <detail::kept_sendable In>
[[nodiscard]] Work isend(In&& x, Rank dst, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  return detail::start(detail::sent(x, dst), group, options);
}

/// Receives a message into a buffer or a value, and returns the sender's rank within the group.
///
/// @param src the sender's rank within the group, or any_source for the next message of any rank
///
/// The message must have exactly the length and dtype of `x`. Otherwise the call throws Mismatch, and
/// the message is gone.
template <detail::receivable B>
int recv(B&& x, Source src, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  return detail::run(detail::received(x, src.rank()), group, options).source;
}

/// Receives the next message of any rank of the world into `x`, as `recv(x, any_source)` does, and
/// returns the sender's rank.
template <detail::NeverGiven = detail::NeverGiven{}, detail::receivable B>
int recv(B&& x, detail::Caller caller = detail::Caller::here()) {
  return recv(x, any_source, current_world(caller.where()), {.where = caller.where()});
}

/// Starts to receive a message and returns at once. `x` belongs to the library until
/// the Work is done; then Work::source_rank and Work::tag tell whose message it was.
template <detail::receivable B>
[[nodiscard]] Work irecv(B&& x, Source src, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  return detail::start(detail::received(x, src.rank()), group, options);
}

/// Starts to receive the next message of any rank of the world, as `irecv(x, any_source)` does.
template <detail::receivable B>
[[nodiscard]] Work irecv(B&& x, detail::Caller caller = detail::Caller::here()) {
  return irecv(x, any_source, current_world(caller.where()), {.where = caller.where()});
}

/// Receives a message and returns it: one element, or a vector that is as long as the message.
///
/// ```cpp
/// const int n = recv<int>(1);
/// const auto x = recv<std::vector<float>>(1);
/// ```
template <class T>
requires(Element<T> || detail::Growable<T>) [[nodiscard]] T
    recv(Source src, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  return detail::recv_value<T>(src.rank(), group, options);
}

/// Receives the next message of any rank of the world, as `recv<T>(any_source)` does, and returns
/// it.
template <class T>
requires(Element<T> || detail::Growable<T>) [[nodiscard]] T recv(detail::Caller caller = detail::Caller::here()) {
  return detail::recv_value<T>(std::nullopt, current_world(caller.where()), {.where = caller.where()});
}

/// Receives a message into a vector, which becomes as long as the message, and returns what has
/// come.
///
/// A message of another dtype is Mismatch, and leaves the vector as it is.
template <detail::Growable V>
MessageInfo recv_resized(V& x, Source src, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  return detail::recv_resizing(x, src.rank(), group, options);
}

/// Waits for a message and tells what it is, without receiving it. A receive from that source with
/// that tag takes it.
///
/// Messages that an earlier irecv waits for are passed over.
///
/// @throws Unsupported if the next message is of device memory, whose length only its receive
///   learns
[[nodiscard]] inline MessageInfo probe(Source src, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  return *detail::probe(detail::probed(src.rank()), group, options, true);
}

/// Tells which message has come, without waiting; std::nullopt if none has. PeerFailed if none can
/// come any more.
[[nodiscard]] inline std::optional<MessageInfo> try_probe(Source src, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  return detail::probe(detail::probed(src.rank()), group, options, false);
}

/// Sends `out` to rank `dst` and receives `in` from rank `src` at the same time, so that ranks can
/// exchange messages of any size without waiting for each other in a circle. Returns the sender's
/// rank, which is `src`.
///
/// ```cpp
/// const int n = world_size();
/// send_recv(mine, (rank() + 1) % n, theirs, (rank() + n - 1) % n);   // around a ring
/// ```
template <detail::sendable In, detail::receivable B>
int send_recv(const In& out, Rank dst, B&& in, Rank src, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  return detail::send_recv(detail::sent(out, dst), detail::received(in, src), group, options);
}

/// Sends the value `x` to rank `dst` and returns the value that rank `src` has sent.
template <Element T>
[[nodiscard]] T send_recv(T x, Rank dst, Rank src, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  T y{};
  send_recv(x, dst, y, src, group, options);
  return y;
}

/// A send or a receive of a batch, which begins nothing by itself. The memory it refers to belongs
/// to the library from the call of `batch` until its Work is done.
class P2POp {
 public:
  /// Describes a send of `x`, a buffer or a value that is an lvalue, to rank `dst`.
  template <detail::kept_sendable In>
  static P2POp send(In&& x, Rank dst) {
    return P2POp(detail::sent(x, dst));
  }
  /// Describes a receive into `x` from rank `src`, or from any_source.
  template <detail::receivable B>
  static P2POp recv(B&& x, Source src) {
    return P2POp(detail::received(x, src.rank()));
  }
  /// Returns the description that the library reads.
  const detail::MessageRequest& request() const { return request_; }

 private:
  explicit P2POp(detail::MessageRequest request) : request_(std::move(request)) {}
  detail::MessageRequest request_;
};

/// Starts all operations of a batch together; element i of the result is the Work of operation i.
///
/// Nothing is started if one of them is InvalidArgument. The operations are started in the order of
/// the list, and none waits for another that it does not match.
[[nodiscard]] UNISONO_API std::vector<Work> batch(std::span<const P2POp> operations, const ProcessGroup& group = current_world(),
                                                  const CallOptions& options = {});

/// Starts the listed operations together.
///
/// ```cpp
/// auto works = batch({P2POp::send(x, right), P2POp::recv(y, left)});
/// wait_all(works);
/// ```
[[nodiscard]] inline std::vector<Work> batch(std::initializer_list<P2POp> operations, const ProcessGroup& group = current_world(),
                                             const CallOptions& options = {}) {
  return batch(std::span<const P2POp>(operations.begin(), operations.size()), group, options);
}

}  // namespace unisono
