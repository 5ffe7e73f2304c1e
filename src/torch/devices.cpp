#include "unisono/torch/devices.h"

#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include "unisono/context.h"
#include "unisono/error.h"
#include "unisono/torch/tensor.h"

namespace unisono {
namespace {

std::string called(const std::string& place) { return place.empty() ? "the data" : fmt::format("data{}", place); }

[[noreturn]] void refuse(const char* call, std::string_view what, std::string_view hint = {}) {
  throw InvalidArgument(what, {.operation = call, .hint = std::string(hint)});
}
void check_defined(const char* call, const at::Tensor& tensor, std::string_view name) {
  if (!tensor.defined()) refuse(call, fmt::format("{} is an undefined tensor", name), "it is on no device");
}

}  // namespace

namespace detail {

at::Device device_of_leaves(const std::vector<TensorLeaf>& leaves) {
  for (const TensorLeaf& leaf : leaves) check_defined("get_data_device", leaf.tensor, called(leaf.place));
  const at::Device device = leaves.front().tensor.device();
  for (const TensorLeaf& leaf : leaves) {
    if (leaf.tensor.device() == device) continue;
    refuse("get_data_device",
           fmt::format("the tensors are on different devices: {} on {}, {} on {}", called(leaves.front().place), device.str(), called(leaf.place),
                       leaf.tensor.device().str()),
           "cast_data_device moves all of them to one");
  }
  return device;
}

std::vector<at::Tensor> leaves_on(const std::vector<TensorLeaf>& leaves, const at::Device& device) {
  for (const TensorLeaf& leaf : leaves) check_defined("cast_data_device", leaf.tensor, called(leaf.place));
  std::vector<at::Tensor> moved;
  moved.reserve(leaves.size());
  for (const TensorLeaf& leaf : leaves) moved.push_back(leaf.tensor.to(device));
  return moved;
}

void fill_leaves(const std::vector<TensorPair>& pairs, const at::Device& device) {
  constexpr const char* call = "cast_data_device";
  // "cuda" without an index stands for any of its devices.
  const auto lies_there = [&](const at::Tensor& t) { return device.has_index() ? t.device() == device : t.device().type() == device.type(); };
  for (const auto& [from, to, place] : pairs) {
    const std::string out = place.empty() ? "out" : fmt::format("out{}", place);
    check_defined(call, from, called(place));
    check_defined(call, to, out);
    if (!lies_there(to)) refuse(call, fmt::format("{} is on {}, {} is asked for", out, to.device().str(), device.str()));
    if (from.sizes() != to.sizes()) {
      refuse(call, fmt::format("{} is of shape {}, {} of shape {}", called(place), c10::str(from.sizes()), out, c10::str(to.sizes())));
    }
    if (from.scalar_type() != to.scalar_type()) {
      refuse(call, fmt::format("{} is of {}, {} of {}", called(place), c10::toString(from.scalar_type()), out, c10::toString(to.scalar_type())),
             "no number is converted");
    }
    if (to.layout() == at::kStrided && at::has_internal_overlap(to) == at::MemOverlap::Yes) {
      refuse(call, fmt::format("elements of {} are the same memory", out), "clone() of an expanded tensor has elements of its own");
    }
  }
  const at::NoGradGuard no_grad;
  for (const auto& [from, to, place] : pairs) to.copy_(from);
}

void refuse_empty_data(const std::string& place) {
  throw InvalidArgument(fmt::format("{} is empty", called(place)), {.hint = "data without a tensor is on no device"});
}
void refuse_out_size(const std::string& place, std::size_t data, std::size_t out) {
  refuse("cast_data_device", fmt::format("{} has {} entries, out{} has {}", called(place), data, place, out));
}
void refuse_out_key(const std::string& place) { refuse("cast_data_device", fmt::format("out{} is missing", place)); }

}  // namespace detail

at::Device get_comm_device(const ProcessGroup& group) {
  const std::string backend = group.backend();
  if (backend != "nccl" && backend.find("cuda:") == std::string::npos) return at::kCPU;
  const Device own = device();
  if (own.type == Device::Type::cuda) return torch_device(own);
  return c10::impl::VirtualGuardImpl(at::kCUDA).getDevice();
}

}  // namespace unisono
