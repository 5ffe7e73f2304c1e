#pragma once

#include "unisono/counts.h"
#include "unisono/detail/typed_edge.h"
#include "unisono/detail/refusals.h"
#include "unisono/tensor.h"

// Overloads that are chosen for a wrong argument of a collective with counts. Each fails a
// static_assert whose sentence says what to write instead. Counts in braces can only become a
// Counts, which is why some overloads name it and do not deduce the argument.

namespace unisono {

template <class X, class... Rest>
requires(!InBuffer<X>) void all_gather_v(X&&, Rest&&...) { detail::refuse_as_buffer<X>(); }
template <class X, class Y, class... Rest>
requires(!InBuffer<X>) void all_gather_v(X&&, Y&&, const Counts&, Rest&&...) { detail::refuse_as_buffer<X>(); }
template <class X, class... Rest>
requires(!InBuffer<X>) void gather_v(X&&, Rest&&...) { detail::refuse_as_buffer<X>(); }
template <class X, class Y, class... Rest>
requires(!InBuffer<X>) void gather_v(X&&, Y&&, const Counts&, Rest&&...) { detail::refuse_as_buffer<X>(); }
template <class X, class... Rest>
requires(!InBuffer<X>) void scatter_v(X&&, const Counts&, Rest&&...) { detail::refuse_as_buffer<X>(); }
template <class X, class... Rest>
requires(!InBuffer<X>) void reduce_scatter_v(X&&, const Counts&, Rest&&...) { detail::refuse_as_buffer<X>(); }
template <class X, class... Rest>
requires(!InBuffer<X>) void all_to_all_v(X&&, const Counts&, Rest&&...) { detail::refuse_as_buffer<X>(); }
template <class X, class Y, class... Rest>
requires(!InBuffer<X>) void all_to_all_v(X&&, const Counts&, Y&&, const Counts&, Rest&&...) { detail::refuse_as_buffer<X>(); }
template <InBuffer In, class X, class... Rest>
requires(!Buffer<X>) void all_gather_v(const In&, X&&, Rest&&...) { detail::refuse_as_buffer<X>(); }
template <InBuffer In, class X, class... Rest>
requires(!Buffer<X>) void all_gather_v(const In&, X&&, const Counts&, Rest&&...) { detail::refuse_as_buffer<X>(); }
template <InBuffer In, class X, class... Rest>
requires(!Buffer<X>) void gather_v(const In&, X&&, Rest&&...) { detail::refuse_as_buffer<X>(); }
template <InBuffer In, class X, class... Rest>
requires(!Buffer<X>) void gather_v(const In&, X&&, const Counts&, Rest&&...) { detail::refuse_as_buffer<X>(); }
template <InBuffer In, class X, class... Rest>
requires(!Buffer<X>) void scatter_v(const In&, const Counts&, X&&, Rest&&...) { detail::refuse_as_buffer<X>(); }
template <InBuffer In, class X, class... Rest>
requires(!Buffer<X>) void reduce_scatter_v(const In&, const Counts&, X&&, Rest&&...) { detail::refuse_as_buffer<X>(); }
template <InBuffer In, class X, class... Rest>
requires(!Buffer<X>) void all_to_all_v(const In&, const Counts&, X&&, Rest&&...) { detail::refuse_as_buffer<X>(); }
template <InBuffer In, class X, class... Rest>
requires(!Buffer<X>) void all_to_all_v(const In&, const Counts&, X&&, const Counts&, Rest&&...) { detail::refuse_as_buffer<X>(); }
// Data and counts of one type are told apart by their order alone.
template <InBuffer In, class C, class B, class... Rest>
requires detail::data_as_counts<C, In>
void scatter_v(const In&, const C&, B&&, Rest&&...) { detail::refuse_as_counts<C>(); }
template <InBuffer In, class C, class B, class... Rest>
requires detail::data_as_counts<C, In>
void scatter_v_async(const In&, const C&, B&&, Rest&&...) { detail::refuse_as_counts<C>(); }
template <InBuffer In, class C, class B, class... Rest>
requires detail::data_as_counts<C, In>
void reduce_scatter_v(const In&, const C&, B&&, Rest&&...) { detail::refuse_as_counts<C>(); }
template <InBuffer In, class C, class B, class... Rest>
requires detail::data_as_counts<C, In>
void reduce_scatter_v_async(const In&, const C&, B&&, Rest&&...) { detail::refuse_as_counts<C>(); }
template <InBuffer In, class C, class B, class... Rest>
requires detail::data_as_counts<C, In>
void all_to_all_v(const In&, const C&, B&&, Rest&&...) { detail::refuse_as_counts<C>(); }
template <InBuffer In, class C, class B, class... Rest>
requires detail::data_as_counts<C, In>
void all_to_all_v_async(const In&, const C&, B&&, Rest&&...) { detail::refuse_as_counts<C>(); }
template <InBuffer In, Buffer B>
requires(!detail::Growable<std::remove_cvref_t<B>>) void all_gather_v(const In&, B&&) { detail::refuse_as_growable<B>(); }
template <InBuffer In, Buffer B>
requires(!detail::Growable<std::remove_cvref_t<B>>) void gather_v(const In&, B&&) { detail::refuse_as_growable<B>(); }
template <InBuffer In, Buffer B>
requires(!detail::Growable<std::remove_cvref_t<B>>) void all_to_all_v(const In&, const Counts&, B&&) { detail::refuse_as_growable<B>(); }

}  // namespace unisono
