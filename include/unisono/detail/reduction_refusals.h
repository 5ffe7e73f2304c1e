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

#define UNISONO_REFUSE_IN_PLACE(function, is_taken_elsewhere)                                                                                \
  template <class X, class... Rest>                                                                                                          \
  requires(!Buffer<X> && !detail::value<X> && !(is_taken_elsewhere) && !(InBuffer<X> && detail::begins_with_buffer<Rest...>)) void function( \
      X&&, Rest&&...) {                                                                                                                      \
    detail::refuse_as_buffer<X>();                                                                                                           \
  }
UNISONO_REFUSE_IN_PLACE(all_reduce, detail::takes_place<X>)
UNISONO_REFUSE_IN_PLACE(reduce, detail::takes_place<X>)
UNISONO_REFUSE_IN_PLACE(scan, detail::takes_place<X>)
UNISONO_REFUSE_IN_PLACE(exscan, false)
#undef UNISONO_REFUSE_IN_PLACE

template <InBuffer In, class X, class... Rest>
requires(detail::has_view<X> && !Buffer<X> && !detail::text<X>) void all_reduce(const In&, X&&, Rest&&...) { detail::refuse_as_buffer<X>(); }
template <class X, class... Rest>
requires(!InBuffer<X> && !detail::value<X>) void reduce_scatter(X&&, Rest&&...) { detail::refuse_as_buffer<X>(); }
template <InBuffer In, class X, class... Rest>
requires(detail::has_view<X> && !Buffer<X>) void reduce_scatter(const In&, X&&, Rest&&...) { detail::refuse_as_buffer<X>(); }
template <class X, class... Rest>
requires(!detail::value<X>) void mean(X&&, Rest&&...) { detail::refuse_as_value<X>(); }

// These refuse text, a number or a group in the place of the operation, and an optional group or
// the options in the place of the group.

#define UNISONO_REFUSE_OPERATION(function)                                                                                                  \
  template <class X, class Op, class... Rest>                                                                                               \
  requires(detail::in_or_value<X> && detail::no_operation<Op>) void function(X&&, Op&&, Rest&&...) { detail::refuse_as_operation<Op>(); }   \
  template <class X, class Op, class G, class... Rest>                                                                                      \
  requires(detail::in_or_value<X> && detail::operation_for<Op, X> && detail::misplaced_group<G>) void function(X&&, Op&&, G&&, Rest&&...) { \
    detail::refuse_as_group<G>();                                                                                                           \
  }
#define UNISONO_REFUSE_OPERATION_OF_TWO_BUFFERS(function)                                                                    \
  template <InBuffer In, Buffer B, class Op, class... Rest>                                                                  \
  requires detail::no_operation<Op>                                                                                          \
  void function(const In&, B&&, Op&&, Rest&&...) { detail::refuse_as_operation<Op>(); }                                      \
  template <InBuffer In, Buffer B, class Op, class G, class... Rest>                                                         \
  requires(detail::operation_for<Op, B> && detail::misplaced_group<G>) void function(const In&, B&&, Op&&, G&&, Rest&&...) { \
    detail::refuse_as_group<G>();                                                                                            \
  }
#define UNISONO_REFUSE_OPERATION_BEHIND_ROOT(function)                                                                                            \
  template <class X, class Op, class... Rest>                                                                                                     \
  requires(detail::in_or_value<X> && detail::misplaced_root<Op>) void function(X&&, Op&&, Rest&&...) { detail::refuse_as_root<Op>(); }            \
  template <class X, class Op, class... Rest>                                                                                                     \
  requires(detail::in_or_value<X> && detail::no_operation<Op>) void function(X&&, Rank, Op&&, Rest&&...) { detail::refuse_as_operation<Op>(); }   \
  template <class X, class Op, class G, class... Rest>                                                                                            \
  requires(detail::in_or_value<X> && detail::operation_for<Op, X> && detail::misplaced_group<G>) void function(X&&, Rank, Op&&, G&&, Rest&&...) { \
    detail::refuse_as_group<G>();                                                                                                                 \
  }
UNISONO_REFUSE_OPERATION(all_reduce)
UNISONO_REFUSE_OPERATION(all_reduce_async)
UNISONO_REFUSE_OPERATION(scan)
UNISONO_REFUSE_OPERATION(scan_async)
UNISONO_REFUSE_OPERATION(exscan)
UNISONO_REFUSE_OPERATION(exscan_async)
UNISONO_REFUSE_OPERATION_OF_TWO_BUFFERS(all_reduce)
UNISONO_REFUSE_OPERATION_OF_TWO_BUFFERS(all_reduce_async)
UNISONO_REFUSE_OPERATION_OF_TWO_BUFFERS(reduce_scatter)
UNISONO_REFUSE_OPERATION_OF_TWO_BUFFERS(reduce_scatter_async)
UNISONO_REFUSE_OPERATION_BEHIND_ROOT(reduce)
UNISONO_REFUSE_OPERATION_BEHIND_ROOT(reduce_async)
#undef UNISONO_REFUSE_OPERATION
#undef UNISONO_REFUSE_OPERATION_OF_TWO_BUFFERS
#undef UNISONO_REFUSE_OPERATION_BEHIND_ROOT

}  // namespace unisono
