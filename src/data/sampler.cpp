#include "unisono/sampler.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "base/log.h"
#include "unisono/context.h"
#include "unisono/error.h"

// Implements MT19937-64 of M. Matsumoto and T. Nishimura. The state has 312 words; each call tempers one of them, and after 312 calls all of them are
// computed anew from each other.

namespace unisono {
namespace {

constexpr std::size_t words = 312, middle = 156;
constexpr std::uint64_t lower_bits = 0x7fffffffU;  // the lower 31 bits

std::uint64_t twist(std::uint64_t upper, std::uint64_t lower) noexcept {
  const std::uint64_t joined = (upper & ~lower_bits) | (lower & lower_bits);
  return (joined >> 1) ^ ((joined & 1U) != 0 ? 0xb5026f5aa96619e9U : 0U);
}

}  // namespace

SamplerEngine::SamplerEngine(std::uint64_t seed) noexcept : state_(), next_(words) {
  state_[0] = seed;
  for (std::size_t i = 1; i < words; ++i) state_[i] = 6364136223846793005U * (state_[i - 1] ^ (state_[i - 1] >> 62)) + i;
}

void SamplerEngine::refill() noexcept {
  for (std::size_t i = 0; i < words; ++i) state_[i] = state_[(i + middle) % words] ^ twist(state_[i], state_[(i + 1) % words]);
  next_ = 0;
}

std::uint64_t SamplerEngine::operator()() noexcept {
  if (next_ == words) refill();
  std::uint64_t x = state_[next_++];
  x ^= (x >> 29) & 0x5555555555555555U;
  x ^= (x << 17) & 0x71d67fffeda60000U;
  x ^= (x << 37) & 0xfff7eee000000000U;
  return x ^ (x >> 43);
}

namespace {

int replicas_of(const SamplerOptions& options) { return options.num_replicas ? *options.num_replicas : world_size(); }
int rank_of(const SamplerOptions& options) { return options.rank ? *options.rank : rank(); }

/// Returns a number below `bound`, each equally likely (D. Lemire, Fast random integer generation in an interval, 2019). The distributions of the
/// standard library differ between implementations, so they are not used.
std::uint64_t below(std::uint64_t bound, SamplerEngine& engine) {
  __extension__ using Wide = unsigned __int128;
  Wide product = static_cast<Wide>(engine()) * bound;
  if (static_cast<std::uint64_t>(product) < bound) {
    const std::uint64_t threshold = (0 - bound) % bound;
    while (static_cast<std::uint64_t>(product) < threshold) product = static_cast<Wide>(engine()) * bound;
  }
  return static_cast<std::uint64_t>(product >> 64);
}

}  // namespace

namespace detail {

SampleShare::SampleShare(const SamplerOptions& options) : drop_last_(options.drop_last), exact_(options.exact) {
  if (drop_last_ && exact_) throw InvalidArgument("a sampler cannot be exact and drop the last samples", {.operation = "sampler"});
  const int replicas = replicas_of(options);
  const int rank = rank_of(options);
  if (replicas < 1) throw InvalidArgument(fmt::format("a sampler for {} replicas; there is at least one", replicas), {.operation = "sampler"});
  if (rank < 0 || rank >= replicas) {
    throw InvalidArgument(fmt::format("rank {} of a sampler is not within 0 to {}", rank, replicas - 1), {.operation = "sampler"});
  }
  std::vector<std::size_t> widths = options.batch_sizes;
  if (widths.empty()) widths.assign(static_cast<std::size_t>(replicas), 1);
  if (widths.size() != static_cast<std::size_t>(replicas)) {
    throw InvalidArgument(fmt::format("a sampler for {} replicas has batch sizes of {}", replicas, widths.size()), {.operation = "sampler"});
  }
  std::size_t room = std::numeric_limits<std::size_t>::max();
  for (const std::size_t width : widths) {
    if (width > room) throw InvalidArgument("the batch sizes of a sampler are too large to be added up", {.operation = "sampler"});
    room -= width;
  }
  const auto own = widths.begin() + rank;
  begin_ = std::accumulate(widths.begin(), own, std::size_t{0});
  width_ = *own;
  step_ = std::accumulate(own, widths.end(), begin_);
  if (step_ == 0) throw InvalidArgument("the batch sizes of a sampler are all 0", {.operation = "sampler"});
}

std::size_t SampleShare::steps(std::size_t samples) const { return samples / step_ + (!drop_last_ && samples % step_ != 0 ? 1 : 0); }
std::size_t SampleShare::of_rank(std::size_t samples) const {
  if (!exact_) return steps(samples) * width_;
  const std::size_t rest = samples % step_;
  return samples / step_ * width_ + std::min(width_, rest - std::min(rest, begin_));
}
std::size_t SampleShare::of_all(std::size_t samples) const { return exact_ ? samples : steps(samples) * step_; }

std::vector<std::size_t> SampleShare::take(const std::vector<std::size_t>& order) const {
  std::vector<std::size_t> part;
  const std::size_t size = of_rank(order.size());
  part.reserve(size);
  for (std::size_t step = 0; step < steps(order.size()); ++step) {
    for (std::size_t i = 0; i < width_ && part.size() < size; ++i) part.push_back(order[(step * step_ + begin_ + i) % order.size()]);
  }
  return part;
}

std::vector<std::size_t> permutation(std::size_t n, SamplerEngine& engine) {
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t left = n; left > 1; --left) std::swap(order[left - 1], order[below(left, engine)]);
  return order;
}

void warn_of_repeated_epoch(std::uint64_t epoch) {
  base::warn(fmt::format("a shuffling sampler yields epoch {} again, in the same order; call set_epoch before every epoch", epoch));
}

void throw_inexact_sampler(std::size_t length, std::size_t yielded) {
  throw InvalidArgument(fmt::format("an exact share is of a sampler that yields as many samples as its length says, {}, and this one yields {}",
                                    length, yielded > length ? "more" : std::to_string(yielded)),
                        {.operation = "sampler"});
}
void throw_empty_sampler() { throw InvalidArgument("the sampler says that it has samples but yields none", {.operation = "sampler"}); }

}  // namespace detail

DistributedSampler::DistributedSampler(std::size_t dataset_size, const SamplerOptions& options)
    : dataset_size_(dataset_size),
      share_(options),
      rank_(rank_of(options)),
      num_replicas_(replicas_of(options)),
      shuffle_(options.shuffle),
      seed_(options.seed) {}

void DistributedSampler::set_epoch(std::uint64_t epoch) {
  epoch_ = epoch;
  begun_ = false;
  drawn_already_ = false;
}

std::size_t DistributedSampler::size() const { return share_.of_rank(dataset_size_); }
std::size_t DistributedSampler::total_size() const { return share_.of_all(dataset_size_); }

std::vector<std::size_t> DistributedSampler::indices() const {
  if (shuffle_) {
    SamplerEngine engine(seed_ + epoch_);
    return share_.take(detail::permutation(dataset_size_, engine));
  }
  std::vector<std::size_t> order(dataset_size_);
  std::iota(order.begin(), order.end(), std::size_t{0});
  return share_.take(order);
}

const std::vector<std::size_t>& DistributedSampler::drawn() {
  if (!drawn_already_) drawn_ = indices();
  drawn_already_ = true;
  return drawn_;
}

std::vector<std::size_t>::const_iterator DistributedSampler::begin() {
  if (shuffle_ && begun_ && !warned_) {
    warned_ = true;
    detail::warn_of_repeated_epoch(epoch_);
  }
  begun_ = true;
  return drawn().begin();
}

}  // namespace unisono
