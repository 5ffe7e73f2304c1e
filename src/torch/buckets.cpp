#include "buckets.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "unisono/torch/memory.h"

namespace unisono::libtorch {
namespace {

constexpr double mib = 1 << 20;
constexpr double default_cap = 25;
constexpr std::size_t line = 64;

/// Returns the size in bytes, or a usual size where the system does not report one. On some processors sysconf reports the sum of all caches of the
/// machine, so it is not used.
double last_level_cache() {
  std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index3/size");
  double kib = 0;
  constexpr double bytes_per_kib = 1024, usual_cache = 16 * mib;
  return file >> kib && kib > 0 ? kib * bytes_per_kib : usual_cache;
}

std::size_t padded(std::size_t bytes) { return (bytes + line - 1) / line * line; }

}  // namespace

BucketCaps bucket_caps(double bucket_cap_mb, const at::Device& device, int ranks_on_host) {
  double cap = bucket_cap_mb * mib;
  if (device.is_cpu() && bucket_cap_mb == default_cap) {
    cap = std::clamp(last_level_cache() / (4.0 * std::max(ranks_on_host, 1)), mib, default_cap * mib);
  }
  return {static_cast<std::size_t>(std::min(cap, mib)), static_cast<std::size_t>(cap)};
}

std::vector<std::vector<std::size_t>> assign_buckets(std::span<const at::Tensor> parameters, std::span<const std::size_t> order, BucketCaps caps) {
  struct Open {
    std::vector<std::size_t> members = {};
    std::size_t bytes = 0;
    bool first = true;
  };
  std::map<at::ScalarType, Open> open;
  std::map<std::size_t, std::vector<std::size_t>> closed;  // by the place of the first member
  std::vector<std::size_t> place(parameters.size());
  for (std::size_t i = 0; i < order.size(); ++i) place[order[i]] = i;
  const auto close = [&](Open& bucket) {
    if (bucket.members.empty()) return;
    const std::size_t first = place[bucket.members.front()];
    closed.emplace(first, std::move(bucket.members));
    bucket = {.first = false};
  };
  for (const std::size_t parameter : order) {
    Open& bucket = open[parameters[parameter].scalar_type()];
    const std::size_t bytes = padded(parameters[parameter].nbytes());
    if (bucket.bytes + bytes > (bucket.first ? caps.first : caps.later)) close(bucket);
    bucket.members.push_back(parameter);
    bucket.bytes += bytes;
  }
  for (auto& [dtype, bucket] : open) close(bucket);
  std::vector<std::vector<std::size_t>> buckets;
  for (auto& [first, members] : closed) buckets.push_back(std::move(members));
  return buckets;
}

GradientBucket make_bucket(std::span<const at::Tensor> parameters, std::vector<std::size_t> members, std::size_t index, bool is_last) {
  GradientBucket bucket{.index = index, .is_last = is_last};
  const at::TensorOptions options = parameters[members.front()].options().requires_grad(false).memory_format(std::nullopt);
  const std::size_t element = options.dtype().itemsize();
  std::size_t bytes = 0;
  for (const std::size_t m : members) bytes += padded(parameters[m].nbytes());
  const auto elements = static_cast<std::int64_t>(bytes / element);
  bucket.buffer = options.device().is_cpu() ? empty_shared({elements}, options) : at::empty({elements}, options);
  bucket.buffer.zero_();
  std::size_t offset = 0;
  for (const std::size_t m : members) {
    const at::Tensor& parameter = parameters[m];
    at::Tensor gradient = at::empty({0}, options);  // no view for autograd, so that it may be detached in place
    const auto strides = parameter.is_non_overlapping_and_dense() ? parameter.strides().vec()
                                                                  : at::empty_like(parameter, at::MemoryFormat::Contiguous).strides().vec();
    gradient.set_(bucket.buffer.storage(), bucket.buffer.storage_offset() + static_cast<std::int64_t>(offset / element), parameter.sizes(), strides);
    bucket.gradients.push_back(std::move(gradient));
    offset += padded(parameter.nbytes());
  }
  bucket.parameters = std::move(members);
  return bucket;
}

}  // namespace unisono::libtorch
