#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/device_copy.h"
#include "ground/error_place.h"
#include "group/check.h"
#include "group/composed.h"
#include "group/group.h"
#include "group/list_memory.h"
#include "unisono/collectives_lists.h"
#include "unisono/device_runtime.h"
#include "unisono/error.h"

namespace unisono::detail {
namespace {

using ground::with_place;
using Tensors = std::vector<Tensor>;

bool is_on_device(const Tensor& tensor) { return tensor.device().type != Device::Type::cpu; }

/// All buffers of the list as one, if they lie one behind the other.
std::optional<Tensor> as_one(const Tensors& list) {
  const Tensor& first = list.front();
  const auto* next = static_cast<const std::byte*>(first.data());
  for (const Tensor& tensor : list) {
    if (!tensor.is_contiguous() || tensor.device() != first.device() || (tensor.numel() > 0 && tensor.data() != next)) return std::nullopt;
    next += tensor.bytes();
  }
  const std::int64_t shape[] = {first.numel() * static_cast<std::int64_t>(list.size())};
  return Tensor(first.data(), first.dtype(), shape, {}, first.device());
}

/// A list on its way into or out of one operation, which works on memory where its buffers lie one behind the other.
class Staged final : public Around {
 public:
  Staged(Tensors list, bool fills) : list_(std::move(list)), fills_(fills), memory_(list_.front().bytes() * list_.size()) {}
  Tensor whole() { return {memory_.data(), list_.front().dtype(), memory_.size() / size_of(list_.front().dtype())}; }
  void before() override {
    if (fills_) group::take_list(memory_.data(), list_);
  }
  void after() override {
    if (!fills_) group::put_list(list_, memory_.data());
  }
  std::string_view terms() const override { return {}; }  // the others may have one buffer

 private:
  Tensors list_;
  const bool fills_;
  std::vector<std::byte> memory_;
};

/// The same in memory of the device: there the copies are a part of the call.
class StagedOnDevice final : public Around {
 public:
  StagedOnDevice(Tensors list, bool fills)
      : list_(std::move(list)), fills_(fills), runtime_(backends::require_runtime(device().type)), stream_(runtime_.stream(device())) {
    const Tensor& first = list_.front();
    auto* memory = static_cast<std::byte*>(stream_->allocate(first.bytes() * list_.size()));
    whole_ = line(memory, first.numel() * static_cast<std::int64_t>(list_.size()));
    for (std::size_t r = 0; r < list_.size(); ++r) parts_.push_back(line(memory + r * first.bytes(), first.numel()));
    ready_ = runtime_.record(device(), stream_->handle());
  }
  const Tensor& whole() const { return whole_; }
  void before() override {}
  void after() override {}
  std::string_view terms() const override { return {}; }
  std::vector<TensorCopy> copies_before() const override { return fills_ ? copies() : std::vector<TensorCopy>(); }
  std::vector<TensorCopy> copies_after() const override { return fills_ ? std::vector<TensorCopy>() : copies(); }
  std::shared_ptr<DeviceEvent> ready() const override { return ready_; }

 private:
  Device device() const { return list_.front().device(); }
  Tensor line(std::byte* memory, std::int64_t numel) const {
    const std::int64_t shape[] = {numel};
    return {memory, list_.front().dtype(), shape, {}, device()};
  }
  std::vector<TensorCopy> copies() const {
    std::vector<TensorCopy> copies;
    for (std::size_t r = 0; r < list_.size(); ++r) copies.push_back(fills_ ? TensorCopy{parts_[r], list_[r]} : TensorCopy{list_[r], parts_[r]});
    return copies;
  }

  Tensors list_, parts_;
  const bool fills_;
  DeviceRuntime& runtime_;
  std::unique_ptr<DeviceStream> stream_;  // it gives the memory back
  Tensor whole_ = nothing();
  std::shared_ptr<DeviceEvent> ready_;
};

enum class Way { in, out };

/// The list in its place in the request.
void place(Request& request, Tensors list, const Tensor& single, Way way, const ProcessGroup& group) {
  const group::Group& inside = *group.implementation();
  const std::string_view name = name_of(request);
  list = group::locate_list(inside, list);
  group::check_rank_list(inside, name, list, single, way == Way::out);
  Tensor& where = way == Way::in ? request.in : request.out;
  if (const auto whole = as_one(list)) {
    where = *whole;
    return;
  }
  const bool fills = way == Way::in;
  if (!std::ranges::any_of(list, is_on_device)) {
    const auto staged = std::make_shared<Staged>(std::move(list), fills);
    where = staged->whole();
    request.around = staged;
    return;
  }
  for (const Tensor& tensor : list) {
    if (tensor.device() == list.front().device()) continue;
    throw InvalidArgument("a buffer of the list lies on " + to_string(tensor.device()) + ", another on " + to_string(list.front().device()),
                          {.operation = std::string(name), .group = inside.name(), .rank = inside.rank()});
  }
  const auto staged = std::make_shared<StagedOnDevice>(std::move(list), fills);
  where = staged->whole();
  request.around = staged;
}

}  // namespace

Request all_gather_request(const Tensor& in, Tensors outs, const ProcessGroup& group, const CallOptions& options) {
  return with_place(options.where, [&] {
    Request request{Operation::all_gather, in, nothing(in.dtype())};
    place(request, std::move(outs), in, Way::out, group);
    return request;
  });
}

Request gather_request(const Tensor& in, Tensors outs, Rank dst, const ProcessGroup& group, const CallOptions& options) {
  return with_place(options.where, [&] {
    Request request = rooted({Operation::gather, in, nothing(in.dtype())}, dst);
    if (rank_is(dst, group)) place(request, std::move(outs), in, Way::out, group);
    return request;
  });
}

Request scatter_request(Tensors ins, const Tensor& out, Rank src, const ProcessGroup& group, const CallOptions& options) {
  return with_place(options.where, [&] {
    Request request = rooted({Operation::scatter, nothing(out.dtype()), out}, src);
    if (rank_is(src, group)) place(request, std::move(ins), out, Way::in, group);
    return request;
  });
}

void scatter_sizing(std::span<const Tensor> list, Rank src, const std::function<Tensor(std::size_t count)>& resize, const ProcessGroup& group,
                    const CallOptions& options) {
  constexpr std::string_view label = "scatter_list";
  const auto on_device = [&](const Tensor& tensor) { return group::lies_on_device(*group.implementation(), tensor); };
  if (std::ranges::any_of(list, on_device)) {
    throw Unsupported("the list is of device memory, and its parts are vectors",
                      {.operation = std::string(label), .group = group.name(), .rank = group.rank(), .hint = "scatter into a buffer on the device"});
  }
  group::Composed call(label, group, options);
  std::vector<std::size_t> sizes;
  for (const Tensor& tensor : list) sizes.push_back(static_cast<std::size_t>(tensor.numel()));
  const Counts counts = exchange_list_sizes(call, sizes, src);
  Tensor out = nothing();
  std::vector<std::byte> all;
  try {
    out = resize(counts[static_cast<std::size_t>(group.rank())]);
    if (rank_is(src, group)) all.resize(counts.total() * size_of(out.dtype()));
  } catch (...) {
    abandon(group, std::current_exception());
    throw;
  }
  if (rank_is(src, group)) group::take_list(all.data(), list);
  const Tensor in(all.data(), out.dtype(), all.size() / size_of(out.dtype()));
  run(labelled(rooted(counted({Operation::scatter_v, in, out}, counts), src), label), group, call.options());
}

}  // namespace unisono::detail
