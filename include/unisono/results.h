#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "unisono/detail/object_bytes.h"
#include "unisono/detail/object_exchange.h"
#include "unisono/export.h"
#include "unisono/process_group.h"

namespace unisono {

enum class CollectVia { communication, shared_dir };

/// `tmpdir`, of shared_dir only: a directory that all ranks reach, each under the name it gives. It stays, with all that was in it. Not given: a new
/// one in the working directory of rank 0, which is removed.
struct CollectOptions {
  CollectVia via = CollectVia::communication;
  std::string tmpdir = {};
};

namespace detail {

/// What every rank brings, at rank 0 of the group.
UNISONO_API std::optional<ByteParts> collect_parcels(const ObjectType& type, Parcel own, const CollectOptions& how, const ProcessGroup& group,
                                                     const CallOptions& options);

}  // namespace detail

/// On rank 0 of the group the items of all ranks, interleaved: the first of rank 0, of rank 1, …, then the second of each; nullopt elsewhere. Parts
/// may be of different length, and empty: a rank that has no more is passed over, and nothing else is. At most `size` items (of rank 0) are kept, so
/// that what a sampler has added to make parts even falls off the end; where all parts together are fewer, there are fewer. By files: InvalidArgument
/// on all ranks where one cannot write its part, or rank 0 does not see it (no directory, or not a shared one).
template <detail::object O>
[[nodiscard]] std::optional<std::vector<O>> collect_results(std::vector<O> part, std::size_t size, const CollectOptions& how = {},
                                                            const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  using Part = std::vector<O>;
  const auto collected =
      detail::collect_parcels(detail::object_type<Part>(), detail::make_parcel([&] { return detail::to_bytes(part); }), how, group, options);
  if (!collected) return std::nullopt;
  std::vector<Part> parts;
  std::size_t all = 0, longest = 0;
  for (std::size_t r = 0; r < collected->size(); ++r) {
    parts.push_back(detail::from_bytes<Part>((*collected)[r]));
    all += parts.back().size();
    if (parts.back().size() > longest) longest = parts.back().size();
  }
  Part results;
  results.reserve(all < size ? all : size);
  for (std::size_t i = 0; i < longest; ++i) {
    for (Part& from : parts) {
      if (i < from.size() && results.size() < size) results.push_back(std::move(from[i]));
    }
  }
  return results;
}

}  // namespace unisono
