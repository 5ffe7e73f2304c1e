#include "unisono/parameters.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/hash.h"
#include "engines/device_copy.h"
#include "group/calls/check.h"
#include "group/calls/composed.h"
#include "group/devices/device_streams.h"
#include "group/group.h"
#include "kernels/pack.h"
#include "kernels/reduce.h"
#include "objects/lines.h"
#include "unisono/collectives_v.h"
#include "unisono/cuda.h"
#include "unisono/detail/bytes.h"
#include "unisono/detail/object_bytes.h"
#include "unisono/error.h"

namespace unisono::detail {
namespace {

using group::is_on_device;

std::uint64_t hash_of(const std::vector<NamedTensor>& tensors) {
  base::StableHash hash;
  for (const auto& [name, view] : tensors) {
    hash.add(name.size());
    hash.add(name);
    hash.add(static_cast<std::uint64_t>(view.dtype()));
    hash.add(static_cast<std::uint64_t>(view.device().type));
    hash.add(view.shape().size());
    for (const std::int64_t extent : view.shape()) hash.add(static_cast<std::uint64_t>(extent));
  }
  return hash.value();
}

/// The name of each tensor with a description of it.
using Table = std::vector<std::pair<std::string, std::string>>;
Table table_of(const std::vector<NamedTensor>& tensors) {
  Table table;
  for (const auto& [name, view] : tensors) {
    const char* place = is_on_device(view) ? " on a device" : "";
    table.emplace_back(name, fmt::format("{} [{}]{}", to_string(view.dtype()), fmt::join(view.shape(), ", "), place));
  }
  return table;
}

std::string first_difference(const Table& here, const Table& there, int rank) {
  for (std::size_t i = 0; i < std::max(here.size(), there.size()); ++i) {
    const bool only_here = i >= there.size() || (i < here.size() && here[i].first < there[i].first);
    if (only_here) return fmt::format("\"{}\" is here, but not on rank {}", here[i].first, rank);
    if (i >= here.size() || there[i].first < here[i].first) return fmt::format("\"{}\" is on rank {}, but not here", there[i].first, rank);
    if (here[i].second != there[i].second) {
      return fmt::format("\"{}\" is {} here, and {} on rank {}", here[i].first, here[i].second, there[i].second, rank);
    }
  }
  return fmt::format("rank {} gives other data than this rank", rank);
}

// Returns the fault of a tensor that is wrong on its own, without regard to other ranks.
std::exception_ptr fault_of(const group::GroupFacts& group, const std::vector<NamedTensor>& tensors, std::string_view label) {
  for (const auto& [name, view] : tensors) {
    try {
      group::check_place(group, label, view);
    } catch (const Error&) {
      return std::current_exception();
    }
    for (std::size_t d = 0; d < view.shape().size() && view.numel() > 0; ++d) {
      if (view.shape()[d] > 1 && view.strides()[d] == 0) {
        return std::make_exception_ptr(InvalidArgument(fmt::format("\"{}\" has a stride of 0: several of its elements are one", name)));
      }
    }
  }
  return nullptr;
}

void compare(group::Composed& call, const std::vector<NamedTensor>& tensors, const Together& how) {
  enum Item : std::size_t { hash, op, coalesce, bucket };
  const objects::Lines lines(call, {hash_of(tensors), static_cast<std::uint64_t>(how.op), how.coalesce ? 1U : 0U, how.bucket_bytes},
                             fault_of(call.group().implementation()->facts(), tensors, how.label));
  if (const auto found = lines.difference_in(hash)) {
    const Table here = table_of(tensors);
    const ByteParts all = all_gather_bytes(to_bytes(here), call.name(), call.group(), call.options());
    const int other = found->other;
    call.throw_mismatch(*found, first_difference(here, from_bytes<Table>(all[static_cast<std::size_t>(other)]), other));
  }
  if (const auto found = lines.difference_in(op)) {
    const auto theirs = static_cast<ReduceOp>(lines.of(found->other, op));
    call.throw_mismatch(*found, fmt::format("{} here, and {} on rank {}", to_string(how.op), to_string(theirs), found->other));
  }
  for (const Item item : {coalesce, bucket}) {
    if (const auto found = lines.difference_in(item)) {
      call.throw_mismatch(*found, fmt::format("rank {} puts buffers together in another way", found->other));
    }
  }
  lines.nobody_failed();
  for (const auto& [name, view] : tensors) {
    if (!kernels::supports(view.dtype(), how.op)) {
      call.throw_invalid(call.group().rank(),
                         fmt::format("{} is not defined on {}, which \"{}\" is", to_string(how.op), to_string(view.dtype()), name));
    }
  }
}

/// Views of one dtype that are reduced in one call, all on the host or all on one device.
struct Bucket {
  DType dtype;
  Device device = {};
  std::size_t bytes = 0;
  std::vector<const TensorView*> views = {};
};
std::vector<Bucket> buckets_of(const std::vector<NamedTensor>& tensors, const Together& how) {
  std::vector<Bucket> buckets;
  for (const auto& named : tensors) {
    const TensorView& view = named.view;
    if (view.numel() == 0) continue;
    const auto open = std::find_if(buckets.begin(), buckets.end(), [&](const Bucket& bucket) {
      return how.coalesce && bucket.dtype == view.dtype() && bucket.device == view.device() && bucket.bytes < how.bucket_bytes;
    });
    Bucket& bucket = open != buckets.end() ? *open : buckets.emplace_back(Bucket{.dtype = view.dtype(), .device = view.device()});
    bucket.bytes += view.bytes();
    bucket.views.push_back(&view);
  }
  return buckets;
}

/// Reduces one contiguous view, to which several views are copied.
using Reduce = std::function<void(const TensorView&)>;

void reduce_on_host(const Bucket& bucket, std::byte* memory, const Reduce& reduce) {
  std::byte* end = memory;
  for (const TensorView* view : bucket.views) {
    kernels::pack(end, *view);
    end += view->bytes();
  }
  reduce(TensorView(memory, bucket.dtype, bucket.bytes / size_of(bucket.dtype)));
  end = memory;
  for (const TensorView* view : bucket.views) {
    kernels::unpack(*view, end);
    end += view->bytes();
  }
}

/// Copies the views into one buffer and back on a stream of the device that runs after the caller's stream; the caller's stream waits for it.
void reduce_on_device(const Bucket& bucket, const Reduce& reduce) {
  DeviceRuntime& runtime = engines::require_runtime(bucket.device.type);
  const auto stream = runtime.stream(bucket.device);
  runtime.record(bucket.device, current_stream())->order(stream->handle());
  auto* const memory = static_cast<std::byte*>(stream->allocate(bucket.bytes));
  const auto line = [&](std::byte* begin, std::int64_t numel) {
    return TensorView(begin, bucket.dtype, std::span<const std::int64_t>(&numel, 1), {}, bucket.device);
  };
  std::byte* end = memory;
  for (const TensorView* view : bucket.views) {
    engines::copy(*stream, line(end, view->numel()), *view);
    end += view->bytes();
  }
  {
    const CurrentStream current(stream->handle());
    reduce(line(memory, static_cast<std::int64_t>(bucket.bytes / size_of(bucket.dtype))));
  }
  end = memory;
  for (const TensorView* view : bucket.views) {
    engines::copy(*stream, *view, line(end, view->numel()));
    end += view->bytes();
  }
  runtime.record(bucket.device, stream->handle())->order(current_stream());
}

/// Returns the views with the device on which each lies.
std::vector<NamedTensor> located(const group::GroupFacts& group, const std::vector<NamedTensor>& tensors) {
  std::vector<NamedTensor> all = tensors;
  for (NamedTensor& tensor : all) tensor.view = group::locate_list(group, std::span(&tensor.view, 1)).front();
  return all;
}

}  // namespace

void sort_by_name(std::vector<NamedTensor>& tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const NamedTensor& a, const NamedTensor& b) { return a.name < b.name; });
}

void reduce_together(const std::vector<NamedTensor>& given, const Together& how, const ProcessGroup& group, const CallOptions& options) {
  check_exchanging({.operation = Operation::all_reduce, .in = nothing(), .out = nothing(), .label = how.label}, group, options);
  const std::vector<NamedTensor> tensors = located(group.implementation()->facts(), given);
  for (const NamedTensor& tensor : tensors) group::check_sent(group.implementation()->facts(), how.label, std::span(&tensor.view, 1));
  group::Composed call(how.label, group, options);
  compare(call, tensors, how);

  const std::vector<Bucket> buckets = buckets_of(tensors, how);
  std::size_t most = 0;
  for (const Bucket& bucket : buckets) most = std::max(most, bucket.views.size() > 1 && bucket.device == Device{} ? bucket.bytes : 0);
  const auto reduce = [&](const TensorView& view) { run(labelled({Operation::all_reduce, view, view, how.op}, how.label), group, call.options()); };
  try {
    const auto memory = std::make_unique_for_overwrite<std::byte[]>(most);
    for (const Bucket& bucket : buckets) {
      if (bucket.views.size() == 1) reduce(*bucket.views.front());
      else if (bucket.device == Device{}) reduce_on_host(bucket, memory.get(), reduce);
      else reduce_on_device(bucket, reduce);
    }
  } catch (const Error&) {
    throw;
  } catch (const std::runtime_error& error) {  // an error of the device, on this rank alone
    abandon(group, std::current_exception());
    throw Error(error.what(), {.operation = std::string(how.label), .group = group.name(), .rank = group.rank(), .where = options.where});
  } catch (...) {  // out of memory
    abandon(group, std::current_exception());
    throw;
  }
}

}  // namespace unisono::detail

namespace unisono {

std::uint32_t sync_random_seed(const ProcessGroup& group, const CallOptions& options) {
  std::uint32_t seed = group.rank() == 0 ? std::random_device()() & 0x7fffffffU : 0;
  const TensorView view = detail::view_of_value(seed);
  detail::run(detail::labelled(detail::rooted({Operation::broadcast, view, view}, 0), "sync_random_seed"), group, options);
  return seed;
}

}  // namespace unisono
