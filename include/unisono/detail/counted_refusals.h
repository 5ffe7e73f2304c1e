#pragma once

#include "unisono/counts.h"
#include "unisono/detail/growable.h"
#include "unisono/detail/refusals.h"
#include "unisono/tensor.h"

// Overloads that are chosen for a wrong argument of a collective with counts. Each fails a
// static_assert whose sentence says what to write instead. Counts in braces can only become a
// Counts, which is why some overloads name it and do not deduce the argument.

namespace unisono {

#define UNISONO_REFUSE_GATHER(function)                                                                           \
  template <class X, class... Rest>                                                                               \
  requires(!InBuffer<X>) void function(X&&, Rest&&...) { detail::refuse_as_buffer<X>(); }                         \
  template <class X, class Y, class... Rest>                                                                      \
  requires(!InBuffer<X>) void function(X&&, Y&&, const Counts&, Rest&&...) { detail::refuse_as_buffer<X>(); }     \
  template <InBuffer In, class X, class... Rest>                                                                  \
  requires(!Buffer<X>) void function(const In&, X&&, Rest&&...) { detail::refuse_as_buffer<X>(); }                \
  template <InBuffer In, class X, class... Rest>                                                                  \
  requires(!Buffer<X>) void function(const In&, X&&, const Counts&, Rest&&...) { detail::refuse_as_buffer<X>(); } \
  template <InBuffer In, Buffer B>                                                                                \
  requires(!detail::Growable<std::remove_cvref_t<B>>) void function(const In&, B&&) { detail::refuse_as_growable<B>(); }
UNISONO_REFUSE_GATHER(all_gather_v)
UNISONO_REFUSE_GATHER(gather_v)
#undef UNISONO_REFUSE_GATHER

// Data and counts of one type are told apart by their order alone.
#define UNISONO_REFUSE_DATA_AS_COUNTS(function)           \
  template <InBuffer In, class C, class B, class... Rest> \
  requires detail::data_as_counts<C, In>                  \
  void function(const In&, const C&, B&&, Rest&&...) { detail::refuse_as_counts<C>(); }
#define UNISONO_REFUSE_SHARING(function)                                                                          \
  template <class X, class... Rest>                                                                               \
  requires(!InBuffer<X>) void function(X&&, const Counts&, Rest&&...) { detail::refuse_as_buffer<X>(); }          \
  template <InBuffer In, class X, class... Rest>                                                                  \
  requires(!Buffer<X>) void function(const In&, const Counts&, X&&, Rest&&...) { detail::refuse_as_buffer<X>(); } \
  UNISONO_REFUSE_DATA_AS_COUNTS(function)                                                                         \
  UNISONO_REFUSE_DATA_AS_COUNTS(function##_async)
UNISONO_REFUSE_SHARING(scatter_v)
UNISONO_REFUSE_SHARING(reduce_scatter_v)
UNISONO_REFUSE_SHARING(all_to_all_v)
#undef UNISONO_REFUSE_SHARING
#undef UNISONO_REFUSE_DATA_AS_COUNTS

template <class X, class Y, class... Rest>
requires(!InBuffer<X>) void all_to_all_v(X&&, const Counts&, Y&&, const Counts&, Rest&&...) { detail::refuse_as_buffer<X>(); }
template <InBuffer In, class X, class... Rest>
requires(!Buffer<X>) void all_to_all_v(const In&, const Counts&, X&&, const Counts&, Rest&&...) { detail::refuse_as_buffer<X>(); }
template <InBuffer In, Buffer B>
requires(!detail::Growable<std::remove_cvref_t<B>>) void all_to_all_v(const In&, const Counts&, B&&) { detail::refuse_as_growable<B>(); }

}  // namespace unisono
