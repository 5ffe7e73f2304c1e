#pragma once

#include <initializer_list>

#include "unisono/counts.h"
#include "unisono/detail/refusals.h"
#include "unisono/detail/typed_edge.h"
#include "unisono/process_group.h"
#include "unisono/reduce_op.h"
#include "unisono/tensor.h"
#include "unisono/with_place.h"

// Overloads that are chosen for a wrong argument of a collective. Each fails a static_assert whose
// sentence says what to write instead, where the compiler would list all candidates.
//
// UNISONO_REFUSE(name, why, types, parameters, condition) declares one of `name`, for calls that
// begin with these parameters where the condition holds; refuse_as_WHY has the sentence.
// UNISONO_REFUSE_BOTH does the same for NAME_async. UNISONO_REFUSE_GROUP(refuse, name, …) declares
// one for a wrong group behind the parameters, and one for ranks in braces in its place.

#define UNISONO_LIST(...) __VA_ARGS__
#define UNISONO_REFUSE(name, why, types, parameters, ...) \
  template <UNISONO_LIST types, class... Rest>            \
  requires(__VA_ARGS__) void name(UNISONO_LIST parameters, Rest&&...) { detail::refuse_as_##why(); }
#define UNISONO_REFUSE_BOTH(name, why, types, parameters, ...) \
  UNISONO_REFUSE(name, why, types, parameters, __VA_ARGS__)    \
  UNISONO_REFUSE(name##_async, why, types, parameters, __VA_ARGS__)
#define UNISONO_REFUSE_GROUP(refuse, name, types, parameters, no_group, ...)                                           \
  refuse(name, group<G>, (UNISONO_LIST types, class G), (UNISONO_LIST parameters, G &&), (__VA_ARGS__) && no_group<G>) \
      refuse(name, group<detail::RankList<Rest...>>, types, (UNISONO_LIST parameters, std::initializer_list<int>), __VA_ARGS__)

namespace unisono {

// Without counts the output is sized by the call.
template <InBuffer In, Buffer B>
requires(!detail::Growable<std::remove_cvref_t<B>>) void all_to_all_v(const In&, const Counts&, B&&) { detail::refuse_as_growable<B>(); }

// No buffer stands where one is meant, or one that cannot be written to.
#define UNISONO_NO_BUFFER !Buffer<X> && !detail::value<X> && !(InBuffer<X> && detail::begins_with_buffer<Rest...>)
UNISONO_REFUSE(all_reduce, buffer<X>, (class X), (X &&), UNISONO_NO_BUFFER && !detail::takes_place<X>)
UNISONO_REFUSE(reduce, buffer<X>, (class X), (X &&), UNISONO_NO_BUFFER && !detail::takes_place<X>)
UNISONO_REFUSE(scan, buffer<X>, (class X), (X &&), UNISONO_NO_BUFFER && !detail::takes_place<X>)
UNISONO_REFUSE(exscan, buffer<X>, (class X), (X &&), UNISONO_NO_BUFFER)
UNISONO_REFUSE(broadcast, buffer<X>, (class X), (X &&), UNISONO_NO_BUFFER && !detail::object_value<X>)
#undef UNISONO_NO_BUFFER
UNISONO_REFUSE(reduce_scatter, buffer<X>, (class X), (X &&), !InBuffer<X> && !detail::value<X>)
UNISONO_REFUSE(all_to_all, buffer<X>, (class X), (X &&), !InBuffer<X> && !detail::value<X>)
UNISONO_REFUSE(scatter, buffer<X>, (class X), (X &&), !InBuffer<X> && !detail::value<X> && !detail::in_list<X>)
#define UNISONO_NO_OBJECT !(detail::object_value<X> && !detail::begins_with_buffer<Rest...>)
UNISONO_REFUSE(all_gather, buffer<X>, (class X), (X &&), !InBuffer<X> && !detail::value<X> && UNISONO_NO_OBJECT)
UNISONO_REFUSE(gather, buffer<X>, (class X), (X &&), !InBuffer<X> && !detail::value<X> && UNISONO_NO_OBJECT)
#undef UNISONO_NO_OBJECT
UNISONO_REFUSE(all_reduce, buffer<X>, (InBuffer In, class X), (const In&, X&&), detail::has_view<X> && !Buffer<X> && !detail::text<X>)
UNISONO_REFUSE(reduce_scatter, buffer<X>, (InBuffer In, class X), (const In&, X&&), detail::has_view<X> && !Buffer<X>)
UNISONO_REFUSE(all_gather, buffer<X>, (InBuffer In, class X), (const In&, X&&), detail::has_view<X> && !Buffer<X>)
UNISONO_REFUSE(gather, buffer<X>, (InBuffer In, class X), (const In&, X&&), detail::has_view<X> && !Buffer<X>)
UNISONO_REFUSE(scatter, buffer<X>, (InBuffer In, class X), (const In&, X&&), detail::has_view<X> && !Buffer<X>)
UNISONO_REFUSE(all_to_all, buffer<X>, (InBuffer In, class X), (const In&, X&&), detail::has_view<X> && !Buffer<X>)

// A buffer stands where a value is meant, or for the result of objects.
UNISONO_REFUSE(mean, value<X>, (class X), (X &&), !detail::value<X>)
UNISONO_REFUSE(all_gather, value<X>, (class X), (X &&), InBuffer<X> && !detail::object_value<X> && !detail::begins_with_buffer<Rest...>)
UNISONO_REFUSE(gather, value<X>, (class X), (X &&), InBuffer<X> && !detail::object_value<X> && !detail::begins_with_buffer<Rest...>)
UNISONO_REFUSE(all_gather, output<X>, (class X, class Y), (X&&, Y&&), detail::objects_as_output<X, Y>)
UNISONO_REFUSE(gather, output<X>, (class X, class Y), (X&&, Y&&), detail::objects_as_output<X, Y>)

// Text, a number or a group stands where the operation is meant, an optional group, a list of ranks
// or the options where the group is.
#define UNISONO_REFUSE_OPERATION(name)                                                                                           \
  UNISONO_REFUSE_BOTH(name, operation<Op>, (class X, class Op), (X&&, Op &&), detail::in_or_value<X>&& detail::no_operation<Op>) \
  UNISONO_REFUSE_GROUP(UNISONO_REFUSE_BOTH, name, (class X, class Op), (X&&, Op &&), detail::misplaced_group,                    \
                       detail::in_or_value<X>&& detail::operation_for<Op, X>)
UNISONO_REFUSE_OPERATION(all_reduce)
UNISONO_REFUSE_OPERATION(scan)
UNISONO_REFUSE_OPERATION(exscan)
#undef UNISONO_REFUSE_OPERATION
UNISONO_REFUSE_BOTH(reduce, operation<Op>, (class X, class Op), (X&&, Rank, Op&&), detail::in_or_value<X>&& detail::no_operation<Op>)
UNISONO_REFUSE_GROUP(UNISONO_REFUSE_BOTH, reduce, (class X, class Op), (X&&, Rank, Op&&), detail::misplaced_group,
                     detail::in_or_value<X>&& detail::operation_for<Op, X>)
#define UNISONO_REFUSE_OPERATION(name)                                                                                                \
  UNISONO_REFUSE_BOTH(name, operation<Op>, (InBuffer In, Buffer B, class Op), (const In&, B&&, Op&&), detail::no_operation<Op>)       \
  UNISONO_REFUSE_GROUP(UNISONO_REFUSE_BOTH, name, (InBuffer In, Buffer B, class Op), (const In&, B&&, Op&&), detail::misplaced_group, \
                       detail::operation_for<Op, B>)
UNISONO_REFUSE_OPERATION(all_reduce)
UNISONO_REFUSE_OPERATION(reduce_scatter)
#undef UNISONO_REFUSE_OPERATION

// A group stands in the place of the root.
UNISONO_REFUSE_BOTH(reduce, root<G>, (class X, class G), (X&&, G&&), detail::in_or_value<X>&& detail::misplaced_root<G>)
UNISONO_REFUSE(broadcast, root<G>, (class X, class G), (X&&, G&&), detail::misplaced_root<G> && (detail::in_or_value<X> || detail::object_value<X>))
UNISONO_REFUSE(broadcast_async, root<G>, (class X, class G), (X&&, G&&), detail::misplaced_root<G>&& detail::in_or_value<X>)
UNISONO_REFUSE(gather, root<G>, (class X, class G), (X&&, G&&), detail::misplaced_root<G>&& detail::object_value<X>)
UNISONO_REFUSE_BOTH(gather, root<G>, (InBuffer In, Buffer B, class G), (const In&, B&&, G&&), detail::misplaced_root<G>)
UNISONO_REFUSE_BOTH(scatter, root<G>, (InBuffer In, Buffer B, class G), (const In&, B&&, G&&), detail::misplaced_root<G>)

// An optional group, a list of ranks or the options stand in the place of the group.
UNISONO_REFUSE_GROUP(UNISONO_REFUSE, broadcast, (class X), (X&&, Rank), detail::no_group, detail::in_or_value<X> || detail::object_value<X>)
UNISONO_REFUSE_GROUP(UNISONO_REFUSE, broadcast_async, (class X), (X&&, Rank), detail::misplaced_group, detail::in_or_value<X>)
UNISONO_REFUSE_GROUP(UNISONO_REFUSE_BOTH, all_gather, (InBuffer In, Buffer B), (const In&, B&&), detail::misplaced_group, true)
UNISONO_REFUSE_GROUP(UNISONO_REFUSE_BOTH, all_to_all, (InBuffer In, Buffer B), (const In&, B&&), detail::misplaced_group, true)
UNISONO_REFUSE_GROUP(UNISONO_REFUSE_BOTH, gather, (InBuffer In, Buffer B), (const In&, B&&, Rank), detail::misplaced_group, true)
UNISONO_REFUSE_GROUP(UNISONO_REFUSE_BOTH, scatter, (InBuffer In, Buffer B), (const In&, B&&, Rank), detail::misplaced_group, true)
UNISONO_REFUSE_GROUP(UNISONO_REFUSE, mean, (class X), (X &&), detail::misplaced_group, detail::value<X>)
UNISONO_REFUSE(all_gather, group<detail::RankList<Rest...>>, (class X), (X&&, std::initializer_list<int>),
               detail::value<X> || detail::object_value<X>)

// Collectives with counts. Counts in braces can only become a Counts, which is why some overloads
// name it and do not deduce the argument. Data and counts of one type are told apart by their order
// alone.
#define UNISONO_REFUSE_COUNTED(name)                                                                   \
  UNISONO_REFUSE(name, buffer<X>, (class X), (X &&), !InBuffer<X>)                                     \
  UNISONO_REFUSE(name, buffer<X>, (class X, class Y), (X&&, Y&&, const Counts&), !InBuffer<X>)         \
  UNISONO_REFUSE(name, buffer<X>, (InBuffer In, class X), (const In&, X&&), !Buffer<X>)                \
  UNISONO_REFUSE(name, buffer<X>, (InBuffer In, class X), (const In&, X&&, const Counts&), !Buffer<X>) \
  template <InBuffer In, Buffer B>                                                                     \
  requires(!detail::Growable<std::remove_cvref_t<B>>) void name(const In&, B&&) { detail::refuse_as_growable<B>(); }
UNISONO_REFUSE_COUNTED(all_gather_v)
UNISONO_REFUSE_COUNTED(gather_v)
#undef UNISONO_REFUSE_COUNTED
#define UNISONO_REFUSE_COUNTED(name)                                                                   \
  UNISONO_REFUSE(name, buffer<X>, (class X), (X&&, const Counts&), !InBuffer<X>)                       \
  UNISONO_REFUSE(name, buffer<X>, (InBuffer In, class X), (const In&, const Counts&, X&&), !Buffer<X>) \
  UNISONO_REFUSE_BOTH(name, counts<C>, (InBuffer In, class C, class B), (const In&, const C&, B&&), detail::data_as_counts<C, In>)
UNISONO_REFUSE_COUNTED(scatter_v)
UNISONO_REFUSE_COUNTED(reduce_scatter_v)
UNISONO_REFUSE_COUNTED(all_to_all_v)
#undef UNISONO_REFUSE_COUNTED
UNISONO_REFUSE(all_to_all_v, buffer<X>, (class X, class Y), (X&&, const Counts&, Y&&, const Counts&), !InBuffer<X>)
UNISONO_REFUSE(all_to_all_v, buffer<X>, (InBuffer In, class X), (const In&, const Counts&, X&&, const Counts&), !Buffer<X>)

}  // namespace unisono

#undef UNISONO_REFUSE_GROUP
#undef UNISONO_REFUSE_BOTH
#undef UNISONO_REFUSE
#undef UNISONO_LIST
