#pragma once

#include <optional>
#include <type_traits>
#include <vector>

#include "unisono/detail/refusals.h"
#include "unisono/detail/request.h"
#include "unisono/detail/typed_edge.h"
#include "unisono/message_info.h"
#include "unisono/operation.h"
#include "unisono/process_group.h"
#include "unisono/tensor.h"
#include "unisono/work.h"

// From the arguments of a message to its request.

namespace unisono::detail {

/// An argument that a message can be sent from: a buffer or a value.
template <class X>
concept sendable = InBuffer<X> || value<X>;

/// An argument that a message can be received into: a buffer, or a value that is an lvalue and not
/// constant.
template <class X>
concept receivable = Buffer<X> ||(value<X>&& std::is_lvalue_reference_v<X> && !std::is_const_v<std::remove_reference_t<X>>);

/// An argument that stays where it is until an asynchronous send is done: a buffer, or a value that
/// is an lvalue.
template <class X>
concept kept_sendable = InBuffer<X> ||(value<X>&& std::is_lvalue_reference_v<X>);

/// Returns a view of what is sent.
template <class X>
TensorView message_view(X& x) {
  if constexpr (value<X>) return {const_cast<std::remove_const_t<X>*>(&x), dtype_of<std::remove_const_t<X>>::value, std::size_t{1}};
  else return view_of(x);
}

/// Returns a view of what is received into.
template <class X>
TensorView writable_message_view(X& x) {
  if constexpr (value<X>) return view_of_value(x);
  else return writable_view_of(x);
}

/// Makes the request of a send.
template <class X>
MessageRequest sent(X& x, Rank dst) {
  return {Operation::send, message_view(x), dst};
}

/// Makes the request of a receive.
template <class X>
MessageRequest received(X& x, std::optional<Rank> src) {
  return {Operation::recv, writable_message_view(x), src};
}

/// Makes the request of a probe.
inline MessageRequest probed(std::optional<Rank> src) { return {Operation::recv, nothing(), src, "probe"}; }

/// Receives a message into a vector that becomes as long as the message.
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

/// Receives an element, or a vector as long as the message, and returns it.
template <class T>
T recv_value(std::optional<Rank> src, const ProcessGroup& group, const CallOptions& options) {
  T x{};
  if constexpr (Element<T>) run(received(x, src), group, options);
  else recv_resizing(x, src, group, options);
  return x;
}

}  // namespace unisono::detail

// Overloads that are chosen for a wrong argument of a message. Each fails a static_assert whose
// sentence says what to write instead.

namespace unisono {

namespace detail {

/// The first template parameter of overloads that `recv<int>(1)`, whose type is given, never
/// chooses.
enum class NeverGiven {};

/// Fails to compile, with a sentence, for a group in the place of the sender.
template <class X>
constexpr void refuse_as_source() {
  static_assert(!misplaced_source<X>,
                "unisono: a group stands where the source is meant: the source comes before the group: recv(x, any_source, group)");
}

/// Fails to compile, with a sentence, for anything that no message can carry.
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

// These refuse a tag, an optional group, a list of ranks or the options in the place of the group.
#define UNISONO_REFUSE_GROUP(name, condition, parameter, ...)                         \
  template <condition X, class G, class... Rest>                                      \
  requires unisono::detail::no_group<G>                                               \
  void name(parameter, __VA_ARGS__, G&&, Rest&&...) { detail::refuse_as_group<G>(); } \
  template <condition X, class... Rest>                                               \
  void name(parameter, __VA_ARGS__, std::initializer_list<int>, Rest&&...) {          \
    detail::refuse_as_group<detail::RankList<X>>();                                   \
  }
UNISONO_REFUSE_GROUP(send, detail::sendable, const X&, Rank)
UNISONO_REFUSE_GROUP(isend, detail::kept_sendable, X&&, Rank)
UNISONO_REFUSE_GROUP(recv, detail::receivable, X&&, Source)
UNISONO_REFUSE_GROUP(irecv, detail::receivable, X&&, Source)
#undef UNISONO_REFUSE_GROUP
template <class T, class G, class... Rest>
requires((Element<T> || detail::Growable<T>)&&detail::no_group<G>) void recv(Source, G&&, Rest&&...) { detail::refuse_as_group<G>(); }
template <detail::sendable In, detail::receivable B, class G, class... Rest>
requires detail::no_group<G>
void send_recv(const In&, Rank, B&&, Rank, G&&, Rest&&...) { detail::refuse_as_group<G>(); }
template <detail::receivable B, detail::misplaced_source G, class... Rest>
void recv(B&&, G&&, Rest&&...) {
  detail::refuse_as_source<G>();
}
template <detail::receivable B, detail::misplaced_source G, class... Rest>
void irecv(B&&, G&&, Rest&&...) {
  detail::refuse_as_source<G>();
}

}  // namespace unisono
