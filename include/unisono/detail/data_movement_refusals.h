#pragma once

// Overloads that are chosen for a wrong argument of a collective that moves elements. Each fails a
// static_assert whose sentence says what to write instead.

#include "unisono/detail/typed_edge.h"
#include "unisono/detail/refusals.h"
#include "unisono/process_group.h"
#include "unisono/tensor.h"

namespace unisono {

template <class X, class... Rest>
requires(!Buffer<X> && !detail::value<X> && !detail::object_value<X> &&
         !(InBuffer<X> && detail::begins_with_buffer<Rest...>)) void broadcast(X&&, Rest&&...) {
  detail::refuse_as_buffer<X>();
}
template <class X, class... Rest>
requires(!InBuffer<X> && !detail::value<X> && !(detail::object_value<X> && !detail::begins_with_buffer<Rest...>)) void all_gather(X&&, Rest&&...) {
  detail::refuse_as_buffer<X>();
}
template <InBuffer In, class X, class... Rest>
requires(detail::has_view<X> && !Buffer<X>) void all_gather(const In&, X&&, Rest&&...) { detail::refuse_as_buffer<X>(); }
template <class X, class... Rest>
requires(InBuffer<X> && !detail::object_value<X> && !detail::begins_with_buffer<Rest...>) void all_gather(X&&, Rest&&...) {
  detail::refuse_as_value<X>();
}
template <class X, class... Rest>
requires(!InBuffer<X> && !detail::value<X> && !(detail::object_value<X> && !detail::begins_with_buffer<Rest...>)) void gather(X&&, Rest&&...) {
  detail::refuse_as_buffer<X>();
}
template <InBuffer In, class X, class... Rest>
requires(detail::has_view<X> && !Buffer<X>) void gather(const In&, X&&, Rest&&...) { detail::refuse_as_buffer<X>(); }
template <class X, class... Rest>
requires(InBuffer<X> && !detail::object_value<X> && !detail::begins_with_buffer<Rest...>) void gather(X&&, Rest&&...) {
  detail::refuse_as_value<X>();
}
template <class X, class... Rest>
requires(!InBuffer<X> && !detail::value<X> && !detail::in_list<X>) void scatter(X&&, Rest&&...) { detail::refuse_as_buffer<X>(); }
template <InBuffer In, class X, class... Rest>
requires(detail::has_view<X> && !Buffer<X>) void scatter(const In&, X&&, Rest&&...) { detail::refuse_as_buffer<X>(); }
template <class X, class... Rest>
requires(!InBuffer<X> && !detail::value<X>) void all_to_all(X&&, Rest&&...) { detail::refuse_as_buffer<X>(); }
template <InBuffer In, class X, class... Rest>
requires(detail::has_view<X> && !Buffer<X>) void all_to_all(const In&, X&&, Rest&&...) { detail::refuse_as_buffer<X>(); }

template <class X, class Y, class... Rest>
requires detail::objects_as_output<X, Y>
void all_gather(X&&, Y&&, Rest&&...) { detail::refuse_output<X>(); }
template <class X, class Y, class... Rest>
requires detail::objects_as_output<X, Y>
void gather(X&&, Y&&, Rest&&...) { detail::refuse_output<X>(); }

// These refuse a group in the place of the root.

template <class X, class G, class... Rest>
requires(detail::misplaced_root<G> && (detail::in_or_value<X> || detail::object_value<X>)) void broadcast(X&&, G&&, Rest&&...) {
  detail::refuse_as_root<G>();
}
template <class X, class G, class... Rest>
requires(detail::misplaced_root<G>&& detail::in_or_value<X>) void broadcast_async(X&&, G&&, Rest&&...) { detail::refuse_as_root<G>(); }
template <class X, class G, class... Rest>
requires(detail::misplaced_root<G>&& detail::object_value<X>) void gather(X&&, G&&, Rest&&...) { detail::refuse_as_root<G>(); }
template <InBuffer In, Buffer B, class G, class... Rest>
requires detail::misplaced_root<G>
void gather(const In&, B&&, G&&, Rest&&...) { detail::refuse_as_root<G>(); }
template <InBuffer In, Buffer B, class G, class... Rest>
requires detail::misplaced_root<G>
void gather_async(const In&, B&&, G&&, Rest&&...) { detail::refuse_as_root<G>(); }
template <InBuffer In, Buffer B, class G, class... Rest>
requires detail::misplaced_root<G>
void scatter(const In&, B&&, G&&, Rest&&...) { detail::refuse_as_root<G>(); }
template <InBuffer In, Buffer B, class G, class... Rest>
requires detail::misplaced_root<G>
void scatter_async(const In&, B&&, G&&, Rest&&...) { detail::refuse_as_root<G>(); }

// These refuse an optional group or the options in the place of the group.

template <class X, class G, class... Rest>
requires(detail::in_or_value<X>&& detail::no_group<G>) void broadcast(X&&, Rank, G&&, Rest&&...) { detail::refuse_as_group<G>(); }
template <class X, class G, class... Rest>
requires(detail::in_or_value<X>&& detail::misplaced_group<G>) void broadcast_async(X&&, Rank, G&&, Rest&&...) { detail::refuse_as_group<G>(); }
template <InBuffer In, Buffer B, class G, class... Rest>
requires detail::misplaced_group<G>
void all_gather(const In&, B&&, G&&, Rest&&...) { detail::refuse_as_group<G>(); }
template <InBuffer In, Buffer B, class G, class... Rest>
requires detail::misplaced_group<G>
void all_gather_async(const In&, B&&, G&&, Rest&&...) { detail::refuse_as_group<G>(); }
template <InBuffer In, Buffer B, class G, class... Rest>
requires detail::misplaced_group<G>
void gather(const In&, B&&, Rank, G&&, Rest&&...) { detail::refuse_as_group<G>(); }
template <InBuffer In, Buffer B, class G, class... Rest>
requires detail::misplaced_group<G>
void gather_async(const In&, B&&, Rank, G&&, Rest&&...) { detail::refuse_as_group<G>(); }
template <InBuffer In, Buffer B, class G, class... Rest>
requires detail::misplaced_group<G>
void scatter(const In&, B&&, Rank, G&&, Rest&&...) { detail::refuse_as_group<G>(); }
template <InBuffer In, Buffer B, class G, class... Rest>
requires detail::misplaced_group<G>
void scatter_async(const In&, B&&, Rank, G&&, Rest&&...) { detail::refuse_as_group<G>(); }
template <InBuffer In, Buffer B, class G, class... Rest>
requires detail::misplaced_group<G>
void all_to_all(const In&, B&&, G&&, Rest&&...) { detail::refuse_as_group<G>(); }
template <InBuffer In, Buffer B, class G, class... Rest>
requires detail::misplaced_group<G>
void all_to_all_async(const In&, B&&, G&&, Rest&&...) { detail::refuse_as_group<G>(); }

}  // namespace unisono
