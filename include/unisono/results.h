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

/// The way of collect_results: messages, or files in a directory that all ranks reach.
enum class CollectVia { communication, shared_dir };

/// The options of collect_results.
struct CollectOptions {
  /// The way that the parts take.
  CollectVia via = CollectVia::communication;
  /// For shared_dir: a directory that all ranks reach, each by the name that it gives. It stays,
  /// with everything that was in it. If it is empty, rank 0 makes a directory in its working
  /// directory, which is removed at the end.
  std::string tmpdir = {};
};

namespace detail {

/// Collects the bytes of all ranks on rank 0 of the group.
UNISONO_API std::optional<ByteParts> collect_parcels(const ObjectType& type, Parcel own, const CollectOptions& how, const ProcessGroup& group,
                                                     const CallOptions& options);

}  // namespace detail

/// Returns the items of all ranks on rank 0 of the group, interleaved: the first item of rank 0, of
/// rank 1, …, then the second of each. It returns std::nullopt on every other rank.
///
/// Parts may differ in length and be empty: a rank that has no more items is passed over. At most
/// `size` items are kept, so that items which a sampler has repeated to make parts even fall off
/// the end.
///
/// ```cpp
/// const auto all = collect_results(predictions, dataset.size());   // the order of an unshuffled DistributedSampler
/// ```
///
/// @param size the number of items to keep; that of rank 0 counts
/// @throws InvalidArgument on all ranks if, by files, a rank cannot write its part or rank 0 cannot
///   read it
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
