#pragma once

// Overloads that are chosen for a wrong argument of a reduction. Each fails a static_assert whose
// sentence says what to write instead, where the compiler would list all candidates.

#include "unisono/detail/refusals.h"
#include "unisono/detail/typed_edge.h"
#include "unisono/process_group.h"
#include "unisono/reduce_op.h"
#include "unisono/tensor.h"
#include "unisono/with_place.h"

namespace unisono {

template <class X, class... Rest>
requires(!Buffer<X> && !detail::value<X> && !detail::takes_place<X> &&
         !(InBuffer<X> && detail::begins_with_buffer<Rest...>)) void all_reduce(X&&, Rest&&...) {
  detail::refuse_as_buffer<X>();
}
template <InBuffer In, class X, class... Rest>
requires(detail::has_view<X> && !Buffer<X> && !detail::text<X>) void all_reduce(const In&, X&&, Rest&&...) { detail::refuse_as_buffer<X>(); }
template <class X, class... Rest>
requires(!Buffer<X> && !detail::value<X> && !detail::takes_place<X> && !(InBuffer<X> && detail::begins_with_buffer<Rest...>)) void reduce(X&&,
                                                                                                                                          Rest&&...) {
  detail::refuse_as_buffer<X>();
}
template <class X, class... Rest>
requires(!InBuffer<X> && !detail::value<X>) void reduce_scatter(X&&, Rest&&...) { detail::refuse_as_buffer<X>(); }
template <InBuffer In, class X, class... Rest>
requires(detail::has_view<X> && !Buffer<X>) void reduce_scatter(const In&, X&&, Rest&&...) { detail::refuse_as_buffer<X>(); }
template <class X, class... Rest>
requires(!Buffer<X> && !detail::value<X> && !detail::takes_place<X> && !(InBuffer<X> && detail::begins_with_buffer<Rest...>)) void scan(X&&,
                                                                                                                                        Rest&&...) {
  detail::refuse_as_buffer<X>();
}
template <class X, class... Rest>
requires(!Buffer<X> && !detail::value<X> && !(InBuffer<X> && detail::begins_with_buffer<Rest...>)) void exscan(X&&, Rest&&...) {
  detail::refuse_as_buffer<X>();
}
template <class X, class... Rest>
requires(!detail::value<X>) void mean(X&&, Rest&&...) { detail::refuse_as_value<X>(); }

// These refuse text, a number or a group in the place of the operation, and an optional group or
// the options in the place of the group.

template <class X, class Op, class... Rest>
requires(detail::in_or_value<X>&& detail::no_operation<Op>) void all_reduce(X&&, Op&&, Rest&&...) { detail::refuse_as_operation<Op>(); }
template <class X, class Op, class G, class... Rest>
requires(detail::in_or_value<X>&& detail::operation_for<Op, X>&& detail::misplaced_group<G>) void all_reduce(X&&, Op&&, G&&, Rest&&...) {
  detail::refuse_as_group<G>();
}
template <class X, class Op, class... Rest>
requires(detail::in_or_value<X>&& detail::no_operation<Op>) void all_reduce_async(X&&, Op&&, Rest&&...) { detail::refuse_as_operation<Op>(); }
template <class X, class Op, class G, class... Rest>
requires(detail::in_or_value<X>&& detail::operation_for<Op, X>&& detail::misplaced_group<G>) void all_reduce_async(X&&, Op&&, G&&, Rest&&...) {
  detail::refuse_as_group<G>();
}
template <InBuffer In, Buffer B, class Op, class... Rest>
requires detail::no_operation<Op>
void all_reduce(const In&, B&&, Op&&, Rest&&...) { detail::refuse_as_operation<Op>(); }
template <InBuffer In, Buffer B, class Op, class G, class... Rest>
requires(detail::operation_for<Op, B>&& detail::misplaced_group<G>) void all_reduce(const In&, B&&, Op&&, G&&, Rest&&...) {
  detail::refuse_as_group<G>();
}
template <InBuffer In, Buffer B, class Op, class... Rest>
requires detail::no_operation<Op>
void all_reduce_async(const In&, B&&, Op&&, Rest&&...) { detail::refuse_as_operation<Op>(); }
template <InBuffer In, Buffer B, class Op, class G, class... Rest>
requires(detail::operation_for<Op, B>&& detail::misplaced_group<G>) void all_reduce_async(const In&, B&&, Op&&, G&&, Rest&&...) {
  detail::refuse_as_group<G>();
}
template <class X, class Op, class... Rest>
requires(detail::in_or_value<X>&& detail::misplaced_root<Op>) void reduce(X&&, Op&&, Rest&&...) { detail::refuse_as_root<Op>(); }
template <class X, class Op, class... Rest>
requires(detail::in_or_value<X>&& detail::misplaced_root<Op>) void reduce_async(X&&, Op&&, Rest&&...) { detail::refuse_as_root<Op>(); }
template <class X, class Op, class... Rest>
requires(detail::in_or_value<X>&& detail::no_operation<Op>) void reduce(X&&, Rank, Op&&, Rest&&...) { detail::refuse_as_operation<Op>(); }
template <class X, class Op, class G, class... Rest>
requires(detail::in_or_value<X>&& detail::operation_for<Op, X>&& detail::misplaced_group<G>) void reduce(X&&, Rank, Op&&, G&&, Rest&&...) {
  detail::refuse_as_group<G>();
}
template <class X, class Op, class... Rest>
requires(detail::in_or_value<X>&& detail::no_operation<Op>) void reduce_async(X&&, Rank, Op&&, Rest&&...) { detail::refuse_as_operation<Op>(); }
template <class X, class Op, class G, class... Rest>
requires(detail::in_or_value<X>&& detail::operation_for<Op, X>&& detail::misplaced_group<G>) void reduce_async(X&&, Rank, Op&&, G&&, Rest&&...) {
  detail::refuse_as_group<G>();
}
template <InBuffer In, Buffer B, class Op, class... Rest>
requires detail::no_operation<Op>
void reduce_scatter(const In&, B&&, Op&&, Rest&&...) { detail::refuse_as_operation<Op>(); }
template <InBuffer In, Buffer B, class Op, class G, class... Rest>
requires(detail::operation_for<Op, B>&& detail::misplaced_group<G>) void reduce_scatter(const In&, B&&, Op&&, G&&, Rest&&...) {
  detail::refuse_as_group<G>();
}
template <InBuffer In, Buffer B, class Op, class... Rest>
requires detail::no_operation<Op>
void reduce_scatter_async(const In&, B&&, Op&&, Rest&&...) { detail::refuse_as_operation<Op>(); }
template <InBuffer In, Buffer B, class Op, class G, class... Rest>
requires(detail::operation_for<Op, B>&& detail::misplaced_group<G>) void reduce_scatter_async(const In&, B&&, Op&&, G&&, Rest&&...) {
  detail::refuse_as_group<G>();
}
template <class X, class Op, class... Rest>
requires(detail::in_or_value<X>&& detail::no_operation<Op>) void scan(X&&, Op&&, Rest&&...) { detail::refuse_as_operation<Op>(); }
template <class X, class Op, class G, class... Rest>
requires(detail::in_or_value<X>&& detail::operation_for<Op, X>&& detail::misplaced_group<G>) void scan(X&&, Op&&, G&&, Rest&&...) {
  detail::refuse_as_group<G>();
}
template <class X, class Op, class... Rest>
requires(detail::in_or_value<X>&& detail::no_operation<Op>) void scan_async(X&&, Op&&, Rest&&...) { detail::refuse_as_operation<Op>(); }
template <class X, class Op, class G, class... Rest>
requires(detail::in_or_value<X>&& detail::operation_for<Op, X>&& detail::misplaced_group<G>) void scan_async(X&&, Op&&, G&&, Rest&&...) {
  detail::refuse_as_group<G>();
}
template <class X, class Op, class... Rest>
requires(detail::in_or_value<X>&& detail::no_operation<Op>) void exscan(X&&, Op&&, Rest&&...) { detail::refuse_as_operation<Op>(); }
template <class X, class Op, class G, class... Rest>
requires(detail::in_or_value<X>&& detail::operation_for<Op, X>&& detail::misplaced_group<G>) void exscan(X&&, Op&&, G&&, Rest&&...) {
  detail::refuse_as_group<G>();
}
template <class X, class Op, class... Rest>
requires(detail::in_or_value<X>&& detail::no_operation<Op>) void exscan_async(X&&, Op&&, Rest&&...) { detail::refuse_as_operation<Op>(); }
template <class X, class Op, class G, class... Rest>
requires(detail::in_or_value<X>&& detail::operation_for<Op, X>&& detail::misplaced_group<G>) void exscan_async(X&&, Op&&, G&&, Rest&&...) {
  detail::refuse_as_group<G>();
}

}  // namespace unisono
