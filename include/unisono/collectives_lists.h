#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "unisono/collectives_v.h"
#include "unisono/detail/typed_edge.h"
#include "unisono/detail/request.h"
#include "unisono/detail/standard.h"
#include "unisono/export.h"
#include "unisono/process_group.h"
#include "unisono/tensor.h"
#include "unisono/work.h"

// all_gather, gather and scatter with a list of buffers, one for each rank in group order, in place
// of one long buffer, as in torch.distributed.
//
// A list is a range of buffers that is no buffer itself: std::vector<std::vector<float>>,
// std::vector<TensorView>, std::vector<at::Tensor>. What is a list on some ranks may be one long
// buffer on others. Buffers that do not lie one behind the other are copied once, on the host or on
// their device.
//
// InvalidArgument is thrown for a list of another length than group.size(), and for buffers that
// differ in length or dtype from the single one, or overlap. Buffers in the memory of a device lie
// on the process's own device.

namespace unisono {

namespace detail {

/// Makes the request of an all_gather into a list.
UNISONO_API Request all_gather_request(const TensorView& in, std::vector<TensorView> outs, const ProcessGroup& group, const CallOptions& options);

/// Makes the request of a gather into a list.
UNISONO_API Request gather_request(const TensorView& in, std::vector<TensorView> outs, Rank dst, const ProcessGroup& group,
                                   const CallOptions& options);

/// Makes the request of a scatter from a list.
UNISONO_API Request scatter_request(std::vector<TensorView> ins, const TensorView& out, Rank src, const ProcessGroup& group,
                                    const CallOptions& options);

/// Carries out a scatter_list. `resize` gives the memory of this rank's part once its length is
/// known.
UNISONO_API void scatter_sizing(std::span<const TensorView> list, Rank src, const std::function<TensorView(std::size_t count)>& resize,
                                const ProcessGroup& group, const CallOptions& options);

/// Cuts a vector into consecutive parts.
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

/// Collects the `in` of all ranks on every rank: buffer r of `outs` becomes that of rank r.
///
/// Each buffer has the length of `in`. `in` may be this rank's own buffer of `outs`.
///
/// ```cpp
/// std::vector<std::vector<float>> outs(size(), std::vector<float>(in.size()));
/// all_gather(in, outs);
/// ```
template <InBuffer In, detail::out_list L>
void all_gather(const In& in, L&& outs, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  detail::run(detail::all_gather_request(detail::view_of(in), detail::writable_views_of(outs), group, options), group, options);
}

/// Starts `all_gather(in, outs)` and returns at once. The buffers belong to the library until the
/// Work is done; the list itself does not have to live that long.
template <InBuffer In, detail::out_list L>
[[nodiscard]] Work all_gather_async(const In& in, L&& outs, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  return detail::start(detail::all_gather_request(detail::view_of(in), detail::writable_views_of(outs), group, options), group, options);
}

/// Collects the `in` of all ranks on rank `dst`. On every other rank `outs` is ignored and may be
/// empty.
template <InBuffer In, detail::out_list L>
void gather(const In& in, L&& outs, Rank dst = 0, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  detail::run(detail::gather_request(detail::view_of(in), detail::writable_views_of(outs), dst, group, options), group, options);
}

/// Starts `gather(in, outs, dst)` and returns at once.
template <InBuffer In, detail::out_list L>
[[nodiscard]] Work gather_async(const In& in, L&& outs, Rank dst = 0, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  return detail::start(detail::gather_request(detail::view_of(in), detail::writable_views_of(outs), dst, group, options), group, options);
}

/// Shares out the buffers of rank `src`: `out` of rank r becomes its buffer r. On every other rank
/// `ins` is ignored and may be empty.
template <detail::in_list L, Buffer B>
void scatter(const L& ins, B&& out, Rank src = 0, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  detail::run(detail::scatter_request(detail::views_of(ins), detail::writable_view_of(out), src, group, options), group, options);
}

/// Starts `scatter(ins, out, src)` and returns at once.
template <detail::in_list L, Buffer B>
[[nodiscard]] Work scatter_async(const L& ins, B&& out, Rank src = 0, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  return detail::start(detail::scatter_request(detail::views_of(ins), detail::writable_view_of(out), src, group, options), group, options);
}

// Lists that are returned: the buffers may have a length of their own on every rank.

/// Returns the buffers of all ranks on every rank, element r from rank r. Their lengths may differ,
/// and need not be known.
///
/// ```cpp
/// std::vector<std::vector<int>> all = all_gather_list(std::span(mine));
/// ```
template <InBuffer In>
requires detail::Growable<std::vector<detail::element_type_t<In>>>
[[nodiscard]] std::vector<std::vector<detail::element_type_t<In>>> all_gather_list(const In& in, const ProcessGroup& group = current_world(),
                                                                                   const CallOptions& options = {}) {
  std::vector<detail::element_type_t<In>> all;
  return detail::parts_of(all, detail::all_gather_sizing(in, all, group, options));
}

/// Returns the buffers of all ranks on rank `dst`, and std::nullopt on every other rank. Their
/// lengths may differ.
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

/// Returns buffer r of rank `src`'s list on rank r. The buffers may differ in length, which the
/// others need not know.
///
/// The list of rank `src` has group.size() buffers; otherwise all ranks throw InvalidArgument. On every
/// other rank it is ignored.
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
