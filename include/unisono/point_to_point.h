#pragma once

#include <concepts>
#include <initializer_list>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "unisono/detail/growable.h"
#include "unisono/detail/refusals.h"
#include "unisono/detail/request.h"
#include "unisono/detail/typed_edge.h"
#include "unisono/message_info.h"
#include "unisono/operation.h"
#include "unisono/process_group.h"
#include "unisono/tensor.h"
#include "unisono/work.h"

// Messages between two ranks of a group, matched by sender, receiver and tag (CallOptions), in the order they were sent. What a message carries is
// a buffer or a value; a value is a message of one element. A message of up to 64 KiB leaves its sender without a matching receive. Another length or
// dtype than the receive's is Mismatch at the receiver; to or from oneself is InvalidArgument. A receive takes any_source in place of the sender,
// {.tag = any_tag} in place of the tag.

namespace unisono {

/// The source of a receive that takes from anybody.
struct AnySource {};
inline constexpr AnySource any_source{};

namespace detail {

/// A message can be sent from the one, and received into the other.
template <class X>
concept sendable = InBuffer<X> || value<X>;
template <class X>
concept receivable = Buffer<X> ||(value<X>&& std::is_lvalue_reference_v<X> && !std::is_const_v<std::remove_reference_t<X>>);
/// The same where the library keeps the memory: a value has to be somewhere.
template <class X>
concept kept_sendable = InBuffer<X> ||(value<X>&& std::is_lvalue_reference_v<X>);

template <class X>
TensorView message_view(X& x) {
  if constexpr (value<X>) return {const_cast<std::remove_const_t<X>*>(&x), dtype_of<std::remove_const_t<X>>::value, std::size_t{1}};
  else return view_of(x);
}
template <class X>
TensorView writable_message_view(X& x) {
  if constexpr (value<X>) return view_of_value(x);
  else return writable_view_of(x);
}
template <class X>
MessageRequest sent(X& x, Rank dst) {
  return {Operation::send, message_view(x), dst};
}
template <class X>
MessageRequest received(X& x, std::optional<Rank> src) {
  return {Operation::recv, writable_message_view(x), src};
}
inline MessageRequest probed(std::optional<Rank> src) { return {Operation::recv, nothing(), src, "probe"}; }

template <class V>
MessageInfo recv_resizing(V& x, std::optional<Rank> src, const ProcessGroup& group, const CallOptions& options) {
  return recv_sized(
      view_of(x), src,
      [&](std::size_t count) {
        x.resize(count);
        return writable_view_of(x);
      },
      group, options);
}
template <class T>
T recv_value(std::optional<Rank> src, const ProcessGroup& group, const CallOptions& options) {
  T x{};
  if constexpr (Element<T>) run(received(x, src), group, options);
  else recv_resizing(x, src, group, options);
  return x;
}

/// Stands first among the template parameters of what only says why a call is refused: recv<int>(1) never means one of those.
enum class NeverGiven {};

template <class X>
constexpr void refuse_as_message() {
  if constexpr (value<X>) {
    static_assert(
        !value<X>,
        "unisono: this value cannot be written to, or is gone before the message is: give an lvalue (that is not const, for a receive), or let "
        "recv<T>(src) return it");
  } else {
    refuse_as_buffer<X>();
  }
}

}  // namespace detail

/// `send(x, 1)` sends a buffer, `send(7, 1)` a value.
template <detail::sendable In>
void send(const In& x, Rank dst, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  detail::run(detail::sent(x, dst), group, options);
}
template <detail::kept_sendable In>
[[nodiscard]] Work isend(In&& x, Rank dst, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  return detail::start(detail::sent(x, dst), group, options);
}

/// Returns the sender's rank in the group.
template <detail::receivable B>
int recv(B&& x, Rank src, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  return detail::run(detail::received(x, src), group, options).source;
}
template <detail::receivable B>
int recv(B&& x, AnySource, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  return detail::run(detail::received(x, std::nullopt), group, options).source;
}
template <detail::receivable B>
[[nodiscard]] Work irecv(B&& x, Rank src, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  return detail::start(detail::received(x, src), group, options);
}
template <detail::receivable B>
[[nodiscard]] Work irecv(B&& x, AnySource, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  return detail::start(detail::received(x, std::nullopt), group, options);
}

/// `int n = recv<int>(1)`: one element. `recv<std::vector<float>>(1)`: a vector as long as the message.
template <class T>
requires(Element<T> || detail::Growable<T>) [[nodiscard]] T
    recv(Rank src, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  return detail::recv_value<T>(src, group, options);
}
template <class T>
requires(Element<T> || detail::Growable<T>) [[nodiscard]] T
    recv(AnySource, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  return detail::recv_value<T>(std::nullopt, group, options);
}
/// The vector becomes as long as the message; returns what came. Another dtype is Mismatch, and leaves the vector as it is.
template <detail::Growable V>
MessageInfo recv_resized(V& x, Rank src, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  return detail::recv_resizing(x, src, group, options);
}
template <detail::Growable V>
MessageInfo recv_resized(V& x, AnySource, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  return detail::recv_resizing(x, std::nullopt, group, options);
}

/// Waits for a message and tells what it is, without receiving it: a receive from that source with that tag takes it. Messages that an earlier irecv
/// waits for do not count. Unsupported where the next message is of device memory, and on a backend of the program's own that has no probe.
[[nodiscard]] inline MessageInfo probe(Rank src, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  return *detail::probe(detail::probed(src), group, options, true);
}
[[nodiscard]] inline MessageInfo probe(AnySource, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  return *detail::probe(detail::probed(std::nullopt), group, options, true);
}
/// The same without waiting: nullopt where none has come yet. PeerFailed where none can come any more.
[[nodiscard]] inline std::optional<MessageInfo> try_probe(Rank src, const ProcessGroup& group = current_world(),
                                                          const CallOptions& options = {}) {
  return detail::probe(detail::probed(src), group, options, false);
}
[[nodiscard]] inline std::optional<MessageInfo> try_probe(AnySource, const ProcessGroup& group = current_world(),
                                                          const CallOptions& options = {}) {
  return detail::probe(detail::probed(std::nullopt), group, options, false);
}

/// Both at once, so that two ranks can exchange messages of any size. Returns the sender.
template <detail::sendable In, detail::receivable B>
int send_recv(const In& out, Rank dst, B&& in, Rank src, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  Work received = irecv(in, src, group, options);
  Work sent = isend(out, dst, group, options);
  sent.wait();
  received.wait();
  return received.source_rank();
}
/// The same of a value: returns what has come.
template <Element T>
[[nodiscard]] T send_recv(T x, Rank dst, Rank src, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  T y{};
  send_recv(x, dst, y, src, group, options);
  return y;
}

/// One message of a batch. The memory it views belongs to the library until its Work is done.
class P2POp {
 public:
  template <detail::kept_sendable In>
  static P2POp send(In&& x, Rank dst) {
    return P2POp(detail::sent(x, dst));
  }
  template <detail::receivable B>
  static P2POp recv(B&& x, Rank src) {
    return P2POp(detail::received(x, src));
  }
  template <detail::receivable B>
  static P2POp recv(B&& x, AnySource) {
    return P2POp(detail::received(x, std::nullopt));
  }
  const detail::MessageRequest& request() const { return request_; }

 private:
  explicit P2POp(detail::MessageRequest request) : request_(std::move(request)) {}
  detail::MessageRequest request_;
};

/// Issues all of them together; the i-th Work is of the i-th message. Nothing is issued if one of them is InvalidArgument.
[[nodiscard]] UNISONO_API std::vector<Work> batch(std::span<const P2POp> operations, const ProcessGroup& group = current_world(),
                                                  const CallOptions& options = {});
/// batch({P2POp::send(x, 1), P2POp::recv(y, 1)})
[[nodiscard]] inline std::vector<Work> batch(std::initializer_list<P2POp> operations, const ProcessGroup& group = current_world(),
                                             const CallOptions& options = {}) {
  return batch(std::span<const P2POp>(operations.begin(), operations.size()), group, options);
}

template <detail::NeverGiven = detail::NeverGiven{}, class X, class... Rest>
requires(!detail::receivable<X>) int recv(X&&, Rest&&...) {
  detail::refuse_as_message<X>();
  return -1;
}
template <class X, class... Rest>
requires(!detail::receivable<X>) Work irecv(X&&, Rest&&...) {
  detail::refuse_as_message<X>();
  return {};
}
template <class X, class... Rest>
requires(!detail::sendable<X>) void send(X&&, Rest&&...) { detail::refuse_as_message<X>(); }
template <class X, class... Rest>
requires(!detail::kept_sendable<X>) Work isend(X&&, Rest&&...) {
  detail::refuse_as_message<X>();
  return {};
}
template <class X, class... Rest>
requires(!detail::Growable<std::remove_cvref_t<X>>) void recv_resized(X&&, Rest&&...) {
  if constexpr (Buffer<X>) detail::refuse_as_growable<X>();
  else detail::refuse_as_buffer<X>();
}

// A tag, an optional group or the options in place of the group.

template <detail::sendable In, class G, class... Rest>
requires detail::no_group<G>
void send(const In&, Rank, G&&, Rest&&...) { detail::refuse_as_group<G>(); }
template <detail::kept_sendable In, class G, class... Rest>
requires detail::no_group<G>
void isend(In&&, Rank, G&&, Rest&&...) { detail::refuse_as_group<G>(); }
template <detail::receivable B, class G, class... Rest>
requires detail::no_group<G>
void recv(B&&, Rank, G&&, Rest&&...) { detail::refuse_as_group<G>(); }
template <detail::receivable B, class G, class... Rest>
requires detail::no_group<G>
void recv(B&&, AnySource, G&&, Rest&&...) { detail::refuse_as_group<G>(); }
template <class T, class G, class... Rest>
requires((Element<T> || detail::Growable<T>)&&detail::no_group<G>) void recv(Rank, G&&, Rest&&...) { detail::refuse_as_group<G>(); }
template <class T, class G, class... Rest>
requires((Element<T> || detail::Growable<T>)&&detail::no_group<G>) void recv(AnySource, G&&, Rest&&...) { detail::refuse_as_group<G>(); }
template <detail::receivable B, class G, class... Rest>
requires detail::no_group<G>
void irecv(B&&, Rank, G&&, Rest&&...) { detail::refuse_as_group<G>(); }
template <detail::receivable B, class G, class... Rest>
requires detail::no_group<G>
void irecv(B&&, AnySource, G&&, Rest&&...) { detail::refuse_as_group<G>(); }
template <detail::sendable In, detail::receivable B, class G, class... Rest>
requires detail::no_group<G>
void send_recv(const In&, Rank, B&&, Rank, G&&, Rest&&...) { detail::refuse_as_group<G>(); }

}  // namespace unisono
