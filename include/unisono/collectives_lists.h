#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "unisono/collectives_v.h"
#include "unisono/detail/buffer_list.h"
#include "unisono/detail/request.h"
#include "unisono/detail/standard.h"
#include "unisono/export.h"
#include "unisono/process_group.h"
#include "unisono/tensor.h"
#include "unisono/work.h"

// all_gather, gather and scatter with a list of buffers, one for each rank in group order, in the place of one long buffer, and forms that return
// such a list. What a list is to some ranks may be one buffer to others. InvalidArgument for a list of another length than size(), and for buffers of
// another length or dtype than the single one. In memory of
// a device they lie on the process's own.

namespace unisono {

namespace detail {

UNISONO_API Request all_gather_request(const TensorView& in, std::vector<TensorView> outs, const ProcessGroup& group, const CallOptions& options);
UNISONO_API Request gather_request(const TensorView& in, std::vector<TensorView> outs, Rank dst, const ProcessGroup& group, const CallOptions& options);
UNISONO_API Request scatter_request(std::vector<TensorView> ins, const TensorView& out, Rank src, const ProcessGroup& group, const CallOptions& options);
/// `resize` gives the memory of this rank's part, once its length is known.
UNISONO_API void scatter_sizing(std::span<const TensorView> list, Rank src, const std::function<TensorView(std::size_t count)>& resize,
                                const ProcessGroup& group, const CallOptions& options);

template <class T>
std::vector<std::vector<T>> parts_of(const std::vector<T>& all, const std::vector<std::size_t>& counts) {
  std::vector<std::vector<T>> parts;
  parts.reserve(counts.size());
  const T* next = all.data();
  for (const std::size_t n : counts) {
    parts.emplace_back(next, next + n);
    next += n;
  }
  return parts;
}

}  // namespace detail

/// outs: size() buffers of the length of `in`, the r-th from rank r. `in` may be the caller's own of them.
template <InBuffer In, detail::out_list L>
void all_gather(const In& in, L&& outs, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  detail::run(detail::all_gather_request(detail::view_of(in), detail::writable_views_of(outs), group, options), group, options);
}
template <InBuffer In, detail::out_list L>
[[nodiscard]] Work all_gather_async(const In& in, L&& outs, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  return detail::start(detail::all_gather_request(detail::view_of(in), detail::writable_views_of(outs), group, options), group, options);
}
/// The same at rank `dst` only; elsewhere `outs` stays as it is and may be empty.
template <InBuffer In, detail::out_list L>
void gather(const In& in, L&& outs, Rank dst = 0, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  detail::run(detail::gather_request(detail::view_of(in), detail::writable_views_of(outs), dst, group, options), group, options);
}
template <InBuffer In, detail::out_list L>
[[nodiscard]] Work gather_async(const In& in, L&& outs, Rank dst = 0, const ProcessGroup& group = current_world(),
                                const CallOptions& options = {}) {
  return detail::start(detail::gather_request(detail::view_of(in), detail::writable_views_of(outs), dst, group, options), group, options);
}
/// ins of rank `src`: size() buffers of the length of `out`; rank r gets the r-th. Elsewhere `ins` does not count and may be empty.
template <detail::in_list L, Buffer B>
void scatter(const L& ins, B&& out, Rank src = 0, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  detail::run(detail::scatter_request(detail::views_of(ins), detail::writable_view_of(out), src, group, options), group, options);
}
template <detail::in_list L, Buffer B>
[[nodiscard]] Work scatter_async(const L& ins, B&& out, Rank src = 0, const ProcessGroup& group = current_world(),
                                 const CallOptions& options = {}) {
  return detail::start(detail::scatter_request(detail::views_of(ins), detail::writable_view_of(out), src, group, options), group, options);
}

// Lists that are returned: the buffers may have a length of their own on every rank.

/// Element r is the buffer of rank r.
template <InBuffer In>
requires detail::Growable<std::vector<detail::element_type_t<In>>>
[[nodiscard]] std::vector<std::vector<detail::element_type_t<In>>> all_gather_list(const In& in, const ProcessGroup& group = current_world(),
                                                                                   const CallOptions& options = {}) {
  std::vector<detail::element_type_t<In>> all;
  return detail::parts_of(all, detail::all_gather_sizing(in, all, group, options));
}
/// nullopt everywhere but at rank `dst`.
template <InBuffer In>
requires detail::Growable<std::vector<detail::element_type_t<In>>>
[[nodiscard]] std::optional<std::vector<std::vector<detail::element_type_t<In>>>> gather_list(const In& in, Rank dst = 0,
                                                                                              const ProcessGroup& group = current_world(),
                                                                                              const CallOptions& options = {}) {
  std::vector<detail::element_type_t<In>> all;
  const auto counts = detail::gather_sizing(in, all, dst, group, options);
  if (!detail::rank_is(dst, group)) return std::nullopt;
  return detail::parts_of(all, counts);
}
/// The r-th buffer of rank `src`'s list, on rank r. There are size() of them, else all ranks throw InvalidArgument. Elsewhere the list does not
/// count.
template <detail::in_list L>
requires detail::Growable<std::vector<detail::list_element_t<L>>>
[[nodiscard]] std::vector<detail::list_element_t<L>> scatter_list(const L& list, Rank src = 0, const ProcessGroup& group = current_world(),
                                                                  const CallOptions& options = {}) {
  std::vector<detail::list_element_t<L>> part;
  detail::scatter_sizing(
      detail::views_of(list), src,
      [&](std::size_t count) {
        part.resize(count);
        return detail::view_of(part);
      },
      group, options);
  return part;
}

}  // namespace unisono
