#pragma once

#include "unisono/detail/typed_edge.h"
#include "unisono/detail/message_request.h"
#include "unisono/detail/refusals.h"
#include "unisono/message_info.h"
#include "unisono/process_group.h"
#include "unisono/tensor.h"
#include "unisono/work.h"

// Overloads that are chosen for a wrong argument of a message. Each fails a static_assert whose
// sentence says what to write instead.

namespace unisono {

namespace detail {

/// The first template parameter of overloads that only refuse a call, so that `recv<int>(1)` never
/// chooses them.
enum class NeverGiven {};

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

// These refuse a tag, an optional group or the options in the place of the group.

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
