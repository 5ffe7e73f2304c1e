#pragma once

// Overloads that are chosen for a wrong argument of a collective that moves elements. Each fails a
// static_assert whose sentence says what to write instead.

#include "unisono/detail/buffer_list.h"
#include "unisono/detail/refusals.h"
#include "unisono/detail/typed_edge.h"
#include "unisono/process_group.h"
#include "unisono/tensor.h"

namespace unisono {

template <class X, class... Rest>
requires(!Buffer<X> && !detail::value<X> && !detail::object_value<X> &&
         !(InBuffer<X> && detail::begins_with_buffer<Rest...>)) void broadcast(X&&, Rest&&...) {
  detail::refuse_as_buffer<X>();
}

#define UNISONO_REFUSE_TWO_BUFFERS(function, is_taken_elsewhere)                                                                        \
  template <class X, class... Rest>                                                                                                     \
  requires(!InBuffer<X> && !detail::value<X> && !(is_taken_elsewhere)) void function(X&&, Rest&&...) { detail::refuse_as_buffer<X>(); } \
  template <InBuffer In, class X, class... Rest>                                                                                        \
  requires(detail::has_view<X> && !Buffer<X>) void function(const In&, X&&, Rest&&...) { detail::refuse_as_buffer<X>(); }
UNISONO_REFUSE_TWO_BUFFERS(all_gather, detail::object_value<X> && !detail::begins_with_buffer<Rest...>)
UNISONO_REFUSE_TWO_BUFFERS(gather, detail::object_value<X> && !detail::begins_with_buffer<Rest...>)
UNISONO_REFUSE_TWO_BUFFERS(scatter, detail::in_list<X>)
UNISONO_REFUSE_TWO_BUFFERS(all_to_all, false)
#undef UNISONO_REFUSE_TWO_BUFFERS

#define UNISONO_REFUSE_LONE_BUFFER(function)                                                                                \
  template <class X, class... Rest>                                                                                         \
  requires(InBuffer<X> && !detail::object_value<X> && !detail::begins_with_buffer<Rest...>) void function(X&&, Rest&&...) { \
    detail::refuse_as_value<X>();                                                                                           \
  }                                                                                                                         \
  template <class X, class Y, class... Rest>                                                                                \
  requires detail::objects_as_output<X, Y>                                                                                  \
  void function(X&&, Y&&, Rest&&...) { detail::refuse_output<X>(); }
UNISONO_REFUSE_LONE_BUFFER(all_gather)
UNISONO_REFUSE_LONE_BUFFER(gather)
#undef UNISONO_REFUSE_LONE_BUFFER

// These refuse a group in the place of the root, and an optional group or the options in the place
// of the group.

template <class X, class G, class... Rest>
requires(detail::misplaced_root<G> && (detail::in_or_value<X> || detail::object_value<X>)) void broadcast(X&&, G&&, Rest&&...) {
  detail::refuse_as_root<G>();
}
template <class X, class G, class... Rest>
requires(detail::misplaced_root<G>&& detail::in_or_value<X>) void broadcast_async(X&&, G&&, Rest&&...) { detail::refuse_as_root<G>(); }
template <class X, class G, class... Rest>
requires(detail::misplaced_root<G>&& detail::object_value<X>) void gather(X&&, G&&, Rest&&...) { detail::refuse_as_root<G>(); }
template <class X, class G, class... Rest>
requires(detail::in_or_value<X>&& detail::no_group<G>) void broadcast(X&&, Rank, G&&, Rest&&...) { detail::refuse_as_group<G>(); }
template <class X, class G, class... Rest>
requires(detail::in_or_value<X>&& detail::misplaced_group<G>) void broadcast_async(X&&, Rank, G&&, Rest&&...) { detail::refuse_as_group<G>(); }

#define UNISONO_REFUSE_GROUP(function)                     \
  template <InBuffer In, Buffer B, class G, class... Rest> \
  requires detail::misplaced_group<G>                      \
  void function(const In&, B&&, G&&, Rest&&...) { detail::refuse_as_group<G>(); }
UNISONO_REFUSE_GROUP(all_gather)
UNISONO_REFUSE_GROUP(all_gather_async)
UNISONO_REFUSE_GROUP(all_to_all)
UNISONO_REFUSE_GROUP(all_to_all_async)
#undef UNISONO_REFUSE_GROUP

#define UNISONO_REFUSE_ROOT(function)                                            \
  template <InBuffer In, Buffer B, class G, class... Rest>                       \
  requires detail::misplaced_root<G>                                             \
  void function(const In&, B&&, G&&, Rest&&...) { detail::refuse_as_root<G>(); } \
  template <InBuffer In, Buffer B, class G, class... Rest>                       \
  requires detail::misplaced_group<G>                                            \
  void function(const In&, B&&, Rank, G&&, Rest&&...) { detail::refuse_as_group<G>(); }
UNISONO_REFUSE_ROOT(gather)
UNISONO_REFUSE_ROOT(gather_async)
UNISONO_REFUSE_ROOT(scatter)
UNISONO_REFUSE_ROOT(scatter_async)
#undef UNISONO_REFUSE_ROOT

}  // namespace unisono
