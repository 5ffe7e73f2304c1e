#include "bucket_reduction.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <exception>
#include <fstream>
#include <map>
#include <utility>

#include "unisono/collectives.h"
#include "unisono/torch/memory.h"
#include "unisono/torch/tensor.h"

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

std::vector<BucketReduction::Position> BucketReduction::lay_out(std::span<const at::Tensor> parameters, std::span<const std::size_t> order) {
  const at::NoGradGuard no_grad;
  auto assigned = assign_buckets(parameters, order, caps_);
  std::vector<Position> places(parameters.size());
  buckets_.clear();
  for (std::size_t b = 0; b < assigned.size(); ++b) {
    for (std::size_t slot = 0; slot < assigned[b].size(); ++slot) places[assigned[b][slot]] = {b, slot};
    const bool is_last = b + 1 == assigned.size();
    buckets_.push_back({.content = make_bucket(parameters, std::move(assigned[b]), b, is_last)});
  }
  return places;
}

std::vector<std::size_t> BucketReduction::order() const {
  std::vector<std::size_t> order;
  for (const Bucket& bucket : buckets_) order.insert(order.end(), bucket.content.parameters.begin(), bucket.content.parameters.end());
  return order;
}

// Waits for the reduction of a pass that an exception broke off, because it may still write where the next gradients go. Its result is ignored; a
// failure of the group is met by the next call.
void BucketReduction::abandon(Bucket& bucket) {
  try {
    bucket.work.wait();
    if (bucket.finish) bucket.finish();
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): see above
  }
  bucket.work = {};
  bucket.finish = nullptr;
}

void BucketReduction::begin() {
  next_ = 0;
  for (Bucket& bucket : buckets_) {
    abandon(bucket);
    bucket.pending = bucket.content.parameters.size();
  }
}

void BucketReduction::filled(const Position& place) {
  if (--buckets_[place.bucket].pending != 0) return;
  while (next_ < buckets_.size() && buckets_[next_].pending == 0) start(buckets_[next_++]);
}

void BucketReduction::start(Bucket& bucket) {
  const at::NoGradGuard no_grad;
  bucket.started = Clock::now();
  if (hook_) {
    bucket.finish = hook_(bucket.content, group_);
    if (!bucket.finish) bucket.completed = Clock::now();
    return;
  }
  bucket.work_completed = std::make_shared<std::atomic<Clock::rep>>(0);
  bucket.work = all_reduce_async(bucket.content.buffer, ReduceOp::avg, group_);
  // The memory is kept until the operation is over, even if this pass is broken off.
  bucket.work.on_completion([buffer = bucket.content.buffer, at = bucket.work_completed] { *at = Clock::now().time_since_epoch().count(); });
}

void BucketReduction::wait(Work& status) {
  std::exception_ptr first;
  const auto attempt = [&](auto&& wait) {
    try {
      wait();
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  };
  for (Bucket& bucket : buckets_) {
    attempt([&] {
      const at::NoGradGuard no_grad;
      bucket.work.wait();
      if (bucket.finish) {
        bucket.finish();
        bucket.completed = Clock::now();
      }
    });
    bucket.finish = nullptr;
  }
  attempt([&] { status.wait(); });
  if (first) std::rethrow_exception(first);
}

std::vector<BucketTimes> BucketReduction::times(const std::function<std::string(std::size_t)>& name_of) const {
  std::vector<BucketTimes> all;
  Clock::time_point latest;
  for (const Bucket& bucket : buckets_) {
    BucketTimes& times = all.emplace_back();
    for (const std::size_t i : bucket.content.parameters) times.parameters.push_back(name_of(i));
    times.bytes = bucket.content.buffer.nbytes();
    times.started = bucket.started;
    // The time may be stored a moment after the reduction is seen to be over.
    const Clock::rep said = hook_ ? 0 : bucket.work_completed->load();
    times.completed = hook_ ? bucket.completed : said == 0 ? Clock::now() : Clock::time_point(Clock::duration(said));
    latest = times.completed = std::max({times.completed, times.started, latest});
  }
  return all;
}

}  // namespace unisono::libtorch
