#include <algorithm>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "engines/device_copy.h"
#include "base/error_place.h"
#include "group/calls/check.h"
#include "group/calls/composed.h"
#include "group/calls/packing.h"
#include "group/devices/device_streams.h"
#include "group/group.h"
#include "unisono/collectives_lists.h"
#include "unisono/error.h"

namespace unisono::detail {
namespace {

using base::with_place;
using Tensors = std::vector<TensorView>;

using group::is_on_device;

/// Returns all buffers of the list as one, if they lie one behind the other.
std::optional<TensorView> as_one(const Tensors& list) {
  const TensorView& first = list.front();
  const auto* next = static_cast<const std::byte*>(first.data());
  for (const TensorView& tensor : list) {
    if (!tensor.is_contiguous() || tensor.device() != first.device() || (tensor.numel() > 0 && tensor.data() != next)) return std::nullopt;
    next += tensor.bytes();
  }
  const std::int64_t shape[] = {first.numel() * static_cast<std::int64_t>(list.size())};
  return TensorView(first.data(), first.dtype(), shape, {}, first.device());
}

/// A list on its way into or out of one operation, which works on memory where its buffers lie one behind the other.
class Staged final : public PrologueEpilogue {
 public:
  Staged(Tensors list, bool fills) : list_(std::move(list)), fills_(fills), memory_(list_.front().bytes() * list_.size()) {}
  TensorView whole() { return {memory_.data(), list_.front().dtype(), memory_.size() / size_of(list_.front().dtype())}; }
  void prologue() override {
    if (fills_) group::take_list(memory_.data(), list_);
  }
  void epilogue() override {
    if (!fills_) group::put_list(list_, memory_.data());
  }
  std::string_view terms() const override { return {}; }  // the other ranks may have one buffer

 private:
  Tensors list_;
  const bool fills_;
  std::vector<std::byte> memory_;
};

/// A list on a device, staged in memory of that device. The device copies in its own order.
class StagedOnDevice final : public PrologueEpilogue {
 public:
  StagedOnDevice(Tensors list, bool fills) : list_(std::move(list)), fills_(fills) {
    const Device device = list_.front().device();
    DeviceRuntime& runtime = engines::require_runtime(device.type);
    stream_ = runtime.stream(device);
    auto* const memory = static_cast<std::byte*>(stream_->allocate(list_.front().bytes() * list_.size()));
    // Other streams will use the memory, so it must be there before they do.
    if (!engines::wait_for(*runtime.record(device, stream_->handle()), base::Deadline(time_to_allocate))) {
      throw std::runtime_error(to_string(device) + " does not get through to an allocation");
    }
    whole_ = line(memory, list_.front().numel() * static_cast<std::int64_t>(list_.size()));
    for (const TensorView& tensor : list_) parts_.push_back(line(memory + parts_.size() * tensor.bytes(), tensor.numel()));
  }
  const TensorView& whole() const { return whole_; }
  void prologue() override {}
  void epilogue() override {}
  std::string_view terms() const override { return {}; }
  std::vector<TensorCopy> prologue_copies() const override { return fills_ ? copies(parts_, list_) : std::vector<TensorCopy>(); }
  std::vector<TensorCopy> epilogue_copies() const override { return fills_ ? std::vector<TensorCopy>() : copies(list_, parts_); }

 private:
  static constexpr std::chrono::minutes time_to_allocate{5};
  TensorView line(std::byte* memory, std::int64_t numel) const {
    return {memory, list_.front().dtype(), std::span<const std::int64_t>(&numel, 1), {}, list_.front().device()};
  }
  static std::vector<TensorCopy> copies(const Tensors& to, const Tensors& from) {
    std::vector<TensorCopy> all;
    for (std::size_t i = 0; i < to.size(); ++i) all.push_back({to[i], from[i]});
    return all;
  }

  Tensors list_;
  const bool fills_;
  std::unique_ptr<DeviceStream> stream_;  // the memory goes with it
  TensorView whole_ = nothing();
  Tensors parts_;
};

/// Calls `f`. A device that fails in it fails on this rank alone, so the others are told.
template <class F>
auto on_device_of(const ProcessGroup& group, std::string_view name, F&& f) {
  try {
    return f();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    abandon(group, std::current_exception());
    throw Error(error.what(), {.operation = std::string(name), .group = group.name(), .rank = group.rank()});
  }
}

enum class Direction { in, out };

/// Puts the list into its place in the request.
void place(Request& request, Tensors list, const TensorView& single, Direction direction, const ProcessGroup& group) {
  const group::Group& inside = *group.implementation();
  const std::string_view name = name_of(request);
  list = group::locate_list(inside.facts(), list);
  group::check_rank_list(inside.facts(), name, list, single, direction == Direction::out);
  if (direction == Direction::in) group::check_sent(inside.facts(), name, list);
  TensorView& where = direction == Direction::in ? request.in : request.out;
  if (const auto whole = as_one(list)) {
    where = *whole;
    return;
  }
  if (is_on_device(list.front())) {
    for (const TensorView& tensor : list) group::check_place(inside.facts(), name, tensor);
    const auto staged = on_device_of(group, name, [&] { return std::make_shared<StagedOnDevice>(std::move(list), direction == Direction::in); });
    where = staged->whole();
    request.edges = staged;
    return;
  }
  const auto staged = std::make_shared<Staged>(std::move(list), direction == Direction::in);
  where = staged->whole();
  request.edges = staged;
}

}  // namespace

Request all_gather_request(const TensorView& in, Tensors outs, const ProcessGroup& group, const CallOptions& options) {
  return with_place(options.where, [&] {
    Request request{Operation::all_gather, in, nothing(in.dtype())};
    place(request, std::move(outs), in, Direction::out, group);
    return request;
  });
}

Request gather_request(const TensorView& in, Tensors outs, Rank dst, const ProcessGroup& group, const CallOptions& options) {
  return with_place(options.where, [&] {
    Request request = rooted({Operation::gather, in, nothing(in.dtype())}, dst);
    if (rank_is(dst, group)) place(request, std::move(outs), in, Direction::out, group);
    return request;
  });
}

Request scatter_request(Tensors ins, const TensorView& out, Rank src, const ProcessGroup& group, const CallOptions& options) {
  return with_place(options.where, [&] {
    Request request = rooted({Operation::scatter, nothing(out.dtype()), out}, src);
    if (rank_is(src, group)) place(request, std::move(ins), out, Direction::in, group);
    return request;
  });
}

void scatter_sizing(std::span<const TensorView> given, Rank src, const std::function<TensorView(std::size_t count)>& resize,
                    const ProcessGroup& group, const CallOptions& options) {
  constexpr std::string_view label = "scatter_list";
  const Tensors list = group::locate_list(group.implementation()->facts(), given);
  for (const TensorView& tensor : list) group::check_place(group.implementation()->facts(), label, tensor);
  if (rank_is(src, group)) group::check_sent(group.implementation()->facts(), label, list);
  group::Composed call(label, group, options);
  std::vector<std::size_t> sizes;
  for (const TensorView& tensor : list) sizes.push_back(static_cast<std::size_t>(tensor.numel()));
  const Counts counts = exchange_list_sizes(call, sizes, src);
  TensorView out = nothing();
  std::vector<std::byte> all;
  try {
    out = resize(counts[static_cast<std::size_t>(group.rank())]);
    if (rank_is(src, group)) all.resize(counts.total() * size_of(out.dtype()));
  } catch (...) {
    abandon(group, std::current_exception());
    throw;
  }
  std::byte* to = all.data();
  for (const TensorView& tensor : rank_is(src, group) ? list : Tensors()) {
    if (is_on_device(tensor)) on_device_of(group, label, [&] { engines::fetch(to, tensor); });
    else group::take(to, tensor);
    to += tensor.bytes();
  }
  const TensorView in(all.data(), out.dtype(), all.size() / size_of(out.dtype()));
  run(labelled(rooted(counted({Operation::scatter_v, in, out}, counts), src), label), group, call.options());
}

}  // namespace unisono::detail
