#include "bucket_reduction.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "unisono/collectives.h"
#include "unisono/torch/tensor.h"

namespace unisono::libtorch {

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
