#include "unisono/torch/tensor.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <cstring>
#include <string>
#include <tuple>
#include <utility>

#include "unisono/collectives_v.h"
#include "unisono/context.h"
#include "unisono/detail/bytes.h"
#include "unisono/error.h"
#include "unisono/objects.h"

namespace unisono {
namespace {

using Shape = std::vector<std::int64_t>;

/// Cuts the elements of all ranks into tensors of these shapes.
std::vector<at::Tensor> cut(const at::Tensor& whole, const std::vector<Shape>& shapes) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> parts;
  std::int64_t begin = 0;
  for (const Shape& shape : shapes) {
    std::int64_t numel = 1;
    for (const std::int64_t extent : shape) numel *= extent;
    parts.push_back(whole.narrow(0, begin, numel).view(shape));
    begin += numel;
  }
  return parts;
}

at::Tensor line(const at::Tensor& tensor) {
  const at::NoGradGuard no_grad;
  return tensor.detach().contiguous().view({-1});
}

std::span<const std::byte> bytes_of(at::IntArrayRef shape) { return std::as_bytes(std::span(shape.data(), shape.size())); }

std::vector<Shape> shapes_of(const detail::ByteParts& parts) {
  std::vector<Shape> shapes;
  for (std::size_t r = 0; r < parts.size(); ++r) {
    Shape shape(parts[r].size() / sizeof(std::int64_t));
    if (!shape.empty()) std::memcpy(shape.data(), parts[r].data(), parts[r].size());
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

/// Gathers the tensors of all ranks, on rank `dst` or on all. Nothing elsewhere.
std::optional<std::vector<at::Tensor>> gathered(std::pair<Operation, std::string_view> call, const at::Tensor& tensor, std::optional<Rank> dst,
                                                const ProcessGroup& group, CallOptions options) {
  static_cast<void>(detail::view_of(tensor));  // throws for tensors that cannot be communicated
  const at::Tensor own = line(tensor);
  detail::Request request = detail::labelled({call.first, detail::view_of(own), detail::nothing(dtype_of_torch(own.scalar_type()))}, call.second);
  request.root = dst;
  detail::check_exchanging(request, group, options);
  request.counts = detail::exchange_counts(request, group, options);
  const detail::ByteParts bytes = detail::all_gather_bytes(bytes_of(tensor.sizes()), call.second, group, options);
  const bool has_result = !dst || detail::rank_is(*dst, group);
  at::Tensor whole = at::empty({has_result ? static_cast<std::int64_t>(request.counts.total()) : 0}, own.options());
  request.out = detail::writable_view_of(whole);
  detail::run(request, group, options);
  if (!has_result) return std::nullopt;
  return cut(whole, shapes_of(bytes));
}

/// The properties of a list that ranks exchange before its elements: the dtype's number, whether it lies on a device, and the shapes.
using ListHeader = std::tuple<std::int64_t, bool, std::vector<Shape>>;

ListHeader header_of(const std::vector<at::Tensor>& list, int ranks) {
  if (list.size() != static_cast<std::size_t>(ranks)) {
    throw InvalidArgument(fmt::format("the list has {} tensors for a group of {}", list.size(), ranks));
  }
  std::vector<Shape> shapes;
  for (const at::Tensor& tensor : list) {
    const TensorView view = detail::view_of_torch(tensor);
    if (tensor.scalar_type() != list.front().scalar_type() || tensor.device() != list.front().device()) {
      throw InvalidArgument(fmt::format("a list holds tensors of {} on {} and of {} on {}", c10::toString(list.front().scalar_type()),
                                        list.front().device().str(), c10::toString(tensor.scalar_type()), tensor.device().str()),
                            {.hint = "the tensors of one call have one dtype and one device"});
    }
    shapes.emplace_back(view.shape().begin(), view.shape().end());
  }
  return {static_cast<std::int64_t>(dtype_of_torch(list.front().scalar_type())), !list.front().is_cpu(), std::move(shapes)};
}

}  // namespace

std::vector<at::Tensor> all_gather_list(const at::Tensor& tensor, const ProcessGroup& group, const CallOptions& options) {
  return *gathered({Operation::all_gather_v, "all_gather_list"}, tensor, std::nullopt, group, options);
}
std::optional<std::vector<at::Tensor>> gather_list(const at::Tensor& tensor, Rank dst, const ProcessGroup& group, const CallOptions& options) {
  return gathered({Operation::gather_v, "gather_list"}, tensor, dst, group, options);
}

at::Tensor scatter_list(const std::vector<at::Tensor>& list, Rank src, const ProcessGroup& group, const CallOptions& options) {
  constexpr std::string_view label = "scatter_list";
  detail::Parcel own =
      detail::parcel_at(src, group, [&] { return detail::make_parcel([&] { return detail::to_bytes(header_of(list, group.size())); }); });
  const auto [dtype, on_device, shapes] =
      detail::from_bytes<ListHeader>(detail::broadcast_parcel(label, detail::object_type<ListHeader>(), std::move(own), src, group, options));
  std::vector<std::size_t> counts;
  for (const Shape& shape : shapes) {
    std::size_t numel = 1;
    for (const std::int64_t extent : shape) numel *= static_cast<std::size_t>(extent);
    counts.push_back(numel);
  }
  const auto like =
      at::TensorOptions().dtype(torch_dtype(static_cast<DType>(dtype))).device(on_device ? torch_device(device()) : at::Device(at::kCPU));
  const auto mine = static_cast<std::size_t>(group.rank());
  at::Tensor out = at::empty(shapes.at(mine), like);
  at::Tensor whole = at::empty({0}, like);
  if (detail::rank_is(src, group)) {
    std::vector<at::Tensor> lines;
    for (const at::Tensor& tensor : list) lines.push_back(line(tensor));
    whole = at::cat(lines);
  }
  detail::Request request = detail::counted(detail::rooted(detail::out_of_place(Operation::scatter_v, whole, out), src), Counts(counts));
  request.label = label;
  detail::run(request, group, options);
  return out;
}

}  // namespace unisono
