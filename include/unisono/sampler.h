#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "unisono/detail/standard.h"
#include "unisono/export.h"

// Samplers share out the samples of a data set among the ranks, for one epoch. They do not
// communicate: every rank computes the same order from seed and epoch, on every platform, and takes
// its own part of it.
//
// ```cpp
// DistributedSampler sampler(dataset.size(), {.seed = 7});
// for (int epoch = 0; epoch < 10; ++epoch) {
//   sampler.set_epoch(epoch);
//   for (const std::size_t index : sampler) train(dataset[index]);
// }
// ```

namespace unisono {

/// The generator of random numbers that samplers draw from: each has its own, never a global one.
///
/// It yields the numbers of std::mt19937_64 for the same seed, and stands wherever <random> and
/// std::shuffle take a generator. The library has a class of its own because <random> takes long to
/// compile.
class UNISONO_API SamplerEngine {
 public:
  using result_type = std::uint64_t;
  /// Seeds the generator.
  explicit SamplerEngine(std::uint64_t seed) noexcept;
  /// Bounds the numbers that it yields.
  static constexpr std::uint64_t min() noexcept { return 0; }
  static constexpr std::uint64_t max() noexcept { return UINT64_MAX; }
  /// Returns the next number.
  std::uint64_t operator()() noexcept;

 private:
  void refill() noexcept;
  std::array<std::uint64_t, 312> state_;
  std::size_t next_;
};

/// The options of a DistributedSampler.
struct SamplerOptions {
  /// The number of ranks that share; the world's size unless it is set.
  std::optional<int> num_replicas = {};
  /// The rank that this sampler is for; this process's in the world unless it is set.
  std::optional<int> rank = {};
  /// Whether the order is drawn from seed + epoch. Otherwise it is 0 … size-1.
  bool shuffle = true;
  /// The seed, the same on all ranks.
  std::uint64_t seed = 0;
  /// Whether samples that cannot be shared out evenly are left out. Otherwise samples from the
  /// beginning are repeated.
  bool drop_last = false;
  /// Whether each sample is of exactly one rank, as an evaluation needs it: none is repeated or left
  /// out, and the last ranks may have fewer, or none.
  bool exact = false;
  /// The batch of every rank, if ranks have different ones (LoaderPlan::batch_sizes). The order is
  /// cut into steps of their sum, of which each rank takes its batch, so that all ranks make the
  /// same number of steps. Empty: rank r takes every num_replicas-th sample, from the r-th on.
  std::vector<std::size_t> batch_sizes = {};
};

/// The options of a DistributedProxySampler.
struct ProxySamplerOptions {
  /// The number of ranks that share; the world's size unless it is set.
  std::optional<int> num_replicas = {};
  /// The rank that this sampler is for; this process's in the world unless it is set.
  std::optional<int> rank = {};
  /// The seed, the same on all ranks.
  std::uint64_t seed = 0;
  /// As in SamplerOptions.
  bool exact = false;
};

namespace detail {

/// The part of an order of samples that belongs to one rank.
class UNISONO_API SampleShare {
 public:
  /// Takes the options. InvalidArgument for a rank outside [0, num_replicas), and for batch sizes
  /// that are not one for each rank, or all 0.
  explicit SampleShare(const SamplerOptions& options);
  /// Returns the number of samples of this rank.
  std::size_t of_rank(std::size_t samples) const;
  /// Returns the number of samples of all ranks together.
  std::size_t of_all(std::size_t samples) const;
  /// Returns this rank's part. The order is repeated as often as needed.
  std::vector<std::size_t> take(const std::vector<std::size_t>& order) const;

 private:
  std::size_t steps(std::size_t samples) const;
  std::size_t step_, begin_, width_;
  bool drop_last_, exact_;
};

/// Returns 0 … n-1 in an order drawn from the generator, the same on every platform (Fisher and
/// Yates' shuffle; Lemire's bounded numbers).
UNISONO_API std::vector<std::size_t> permutation(std::size_t n, SamplerEngine& engine);

/// Warns that set_epoch was forgotten.
UNISONO_API void warn_of_repeated_epoch(std::uint64_t epoch);

/// Throws InvalidArgument for a sampler that says that it has samples but yields none.
[[noreturn]] UNISONO_API void throw_empty_sampler();

/// Throws InvalidArgument for a sampler that cannot be shared out exactly, because it yields fewer
/// samples than its length, or more.
[[noreturn]] UNISONO_API void throw_inexact_sampler(std::size_t length, std::size_t yielded);

/// The mark of a sampler that is distributed already.
struct DistributedSamplerBase {};

/// A sampler that tells how many samples it has.
template <class S>
concept has_length = requires(S& sampler) {
  { sampler.size() } -> std::convertible_to<std::size_t>;
};

/// The generator that a sampler's `draw` takes: SamplerEngine, or any other that is made from a
/// seed, as std::mt19937.
template <class Range, class S, class Engine>
Engine engine_taken_by(Range (S::*)(Engine&));
template <class Range, class S, class Engine>
Engine engine_taken_by(Range (S::*)(Engine&) const);
template <class S>
struct sampler_engine {
  using type = SamplerEngine;
};
template <class S>
requires requires { engine_taken_by(&S::draw); }
struct sampler_engine<S> {
  using type = decltype(engine_taken_by(&S::draw));
};
template <class S>
using sampler_engine_t = typename sampler_engine<S>::type;
template <class S>
concept draws = std::constructible_from<sampler_engine_t<S>, std::uint64_t> && requires(S& sampler, sampler_engine_t<S>& engine) {
  { sampler.draw(engine) } -> std::ranges::input_range;
};

}  // namespace detail

/// The samples of one rank, in the order 0 … size-1 or, shuffled, in an order drawn from seed +
/// epoch. All ranks get equally many, unless SamplerOptions::exact is set.
///
/// Iterators are valid until set_epoch. torch's sampler of that name draws another order from the
/// same seed.
class UNISONO_API DistributedSampler : public detail::DistributedSamplerBase {
 public:
  /// Makes a sampler of the indices 0 … dataset_size-1. InvalidArgument for a rank outside [0,
  /// num_replicas).
  explicit DistributedSampler(std::size_t dataset_size, const SamplerOptions& options = {});

  /// Begins an epoch. Call it before every epoch, on all ranks with the same number; without it the
  /// order stays the same, and a warning says so.
  void set_epoch(std::uint64_t epoch);
  /// Returns the epoch.
  std::uint64_t epoch() const { return epoch_; }
  /// Returns the number of samples of this rank in an epoch.
  std::size_t size() const;
  /// Returns the number of samples of all ranks in an epoch.
  std::size_t total_size() const;
  /// Returns the rank that this sampler is for.
  int rank() const { return rank_; }
  /// Returns the number of ranks that share.
  int num_replicas() const { return num_replicas_; }

  /// Returns the samples of this rank in the current epoch.
  std::vector<std::size_t> indices() const;
  /// Iterates over the samples of this rank in the current epoch.
  std::vector<std::size_t>::const_iterator begin();
  std::vector<std::size_t>::const_iterator end() { return drawn().end(); }

 private:
  const std::vector<std::size_t>& drawn();
  std::size_t dataset_size_;
  detail::SampleShare share_;
  int rank_, num_replicas_;
  bool shuffle_;
  std::uint64_t seed_;
  std::uint64_t epoch_ = 0;
  bool begun_ = false;  // this epoch
  bool warned_ = false;
  bool drawn_already_ = false;
  std::vector<std::size_t> drawn_;
};

/// Shares out what any other sampler yields among the ranks.
///
/// A sampler has size() and either is a range of indices, or has `draw(SamplerEngine&)` that
/// returns one, drawn alike on all ranks from a generator seeded with seed + epoch. It is asked as
/// often as it takes to give every rank equally many, and with ProxySamplerOptions::exact once.
/// InvalidArgument is thrown if it yields nothing, or if an exact one does not yield size() samples.
template <class S>
class DistributedProxySampler : public detail::DistributedSamplerBase {
  static_assert(!std::derived_from<S, detail::DistributedSamplerBase>, "unisono: this sampler is distributed already");
  static_assert(std::derived_from<S, detail::DistributedSamplerBase> || detail::has_length<S>, "unisono: a sampler has a length: std::size_t size()");
  static_assert(!detail::has_length<S> || detail::draws<S> || std::ranges::input_range<S&>,
                "unisono: a sampler is a range of indices, or has draw(unisono::SamplerEngine&) that returns one");

 public:
  /// Takes a sampler, which is moved into this one.
  explicit DistributedProxySampler(S sampler, const ProxySamplerOptions& options = {})
      : sampler_(std::move(sampler)),
        share_({.num_replicas = options.num_replicas, .rank = options.rank, .exact = options.exact}),
        seed_(options.seed),
        is_exact_(options.exact) {}

  /// Begins an epoch, on all ranks with the same number.
  void set_epoch(std::uint64_t epoch) {
    epoch_ = epoch;
    drawn_already_ = false;
  }
  /// Returns the epoch.
  std::uint64_t epoch() const { return epoch_; }
  /// Returns the number of samples of this rank in an epoch.
  std::size_t size() { return share_.of_rank(length()); }
  /// Returns the number of samples of all ranks in an epoch.
  std::size_t total_size() { return share_.of_all(length()); }
  /// Returns the sampler that is shared out.
  S& sampler() { return sampler_; }

  /// Draws an epoch and returns the samples of this rank.
  std::vector<std::size_t> indices() {
    detail::sampler_engine_t<S> engine(seed_ + epoch_);
    const std::size_t total = total_size();
    std::vector<std::size_t> order;
    order.reserve(total);
    if (is_exact_) {
      draw_into(order, engine, total + 1);
      if (order.size() != total) detail::throw_inexact_sampler(total, order.size());
    }
    while (order.size() < total) {
      const std::size_t before = order.size();
      draw_into(order, engine, total);
      if (order.size() == before) detail::throw_empty_sampler();
    }
    return share_.take(order);
  }
  /// Iterates over the samples of this rank, drawing the epoch once.
  std::vector<std::size_t>::const_iterator begin() { return drawn().begin(); }
  std::vector<std::size_t>::const_iterator end() { return drawn().end(); }

 private:
  const std::vector<std::size_t>& drawn() {
    if (!drawn_already_) drawn_ = indices();
    drawn_already_ = true;
    return drawn_;
  }
  std::size_t length() { return static_cast<std::size_t>(sampler_.size()); }
  void draw_into(std::vector<std::size_t>& order, detail::sampler_engine_t<S>& engine, std::size_t at_most) {
    if constexpr (detail::draws<S>) {
      append(order, sampler_.draw(engine), at_most);
    } else {
      append(order, sampler_, at_most);
    }
  }
  template <class Range>
  static void append(std::vector<std::size_t>& order, Range&& range, std::size_t at_most) {
    for (auto&& index : range) {
      if (order.size() == at_most) return;
      order.push_back(static_cast<std::size_t>(index));
    }
  }

  S sampler_;
  detail::SampleShare share_;
  std::uint64_t seed_;
  bool is_exact_;
  std::uint64_t epoch_ = 0;
  bool drawn_already_ = false;
  std::vector<std::size_t> drawn_;
};

}  // namespace unisono
