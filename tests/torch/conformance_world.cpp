#include "conformance_world.h"

namespace conformance {

torch::Tensor value(torch::IntArrayRef sizes, int r, torch::Dtype dtype) {
  const torch::Tensor x = (torch::arange(c10::multiply_integers(sizes), torch::kLong) * 4 + r + 1).reshape(sizes);
  if (dtype == torch::kBool) return ((x / 4).floor() + r) % 2 == 0;
  // uint16 to uint64 know few operations: the conversion is one that they know.
  if (!torch::isComplexType(dtype)) return x.to(dtype);
  const auto part = dtype == torch::kComplexFloat ? torch::kFloat : torch::kDouble;
  return torch::complex(x.to(part), (x * 2 + 1).to(part));
}

torch::Tensor sum(torch::IntArrayRef sizes, int first, int last, torch::Dtype dtype) {
  const bool complex = torch::isComplexType(dtype);
  torch::Tensor all = torch::zeros(sizes, complex ? torch::kComplexDouble : torch::kLong);
  for (int r = first; r < last; ++r) all += value(sizes, r, complex ? torch::kComplexDouble : torch::kLong);
  return all.to(dtype);
}

std::string difference(const torch::Tensor& actual, const torch::Tensor& expected) {
  if (actual.scalar_type() != expected.scalar_type()) {
    return c10::str(actual.scalar_type(), " instead of ", expected.scalar_type());
  }
  if (actual.sizes() != expected.sizes()) return c10::str("shape ", actual.sizes(), " instead of ", expected.sizes());
  // By their bytes: torch::equal does not know every dtype.
  const torch::Tensor a = actual.detach().contiguous().reshape(-1), b = expected.detach().contiguous().reshape(-1);
  const auto size = static_cast<std::size_t>(a.element_size());
  for (std::int64_t i = 0; i < a.numel(); ++i) {
    const auto at = static_cast<std::size_t>(i) * size;
    if (std::memcmp(static_cast<const char*>(a.data_ptr()) + at, static_cast<const char*>(b.data_ptr()) + at, size) != 0) {
      return c10::str("element ", i, " of ", a.numel(), " is ", a[i], " instead of ", b[i]);
    }
  }
  return {};
}

std::vector<std::pair<const char*, torch::Tensor>> layouts(torch::IntArrayRef sizes, torch::Dtype dtype) {
  const torch::TensorOptions options = torch::TensorOptions(dtype);
  std::vector<std::int64_t> reversed(sizes.rbegin(), sizes.rend()), order, wide;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    order.push_back(static_cast<std::int64_t>(sizes.size() - 1 - d));
    wide.push_back(sizes[d] * 3 + 2);
  }
  torch::Tensor stepped = torch::zeros(wide, options), part = torch::zeros(wide, options);
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(sizes.size()); ++d) {
    stepped = stepped.slice(d, 1, 1 + sizes[d] * 3, 3);
    part = part.slice(d, 1, 1 + sizes[d]);
  }
  std::vector<std::int64_t> rotated(sizes.begin() + (sizes.empty() ? 0 : 1), sizes.end()), back;
  if (!sizes.empty()) {
    rotated.push_back(sizes[0]);
    back.push_back(static_cast<std::int64_t>(sizes.size()) - 1);
    for (std::int64_t d = 0; d + 1 < static_cast<std::int64_t>(sizes.size()); ++d) back.push_back(d);
  }
  return {{"contiguous", torch::zeros(sizes, options)},
          {"transposed", torch::zeros(reversed, options).permute(order)},
          {"stepped", stepped},
          {"rotated", torch::zeros(rotated, options).permute(back)},
          {"part", part}};
}

}  // namespace conformance
