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

// Which samples of a data set each rank takes in an epoch. No communication: every rank computes the same order from seed and epoch, on every
// platform, and takes its own part of it.

namespace unisono {

/// Where samplers take chance from: a generator of their own, never a global one. It yields what std::mt19937_64 yields for the same seed, and stands
/// wherever <random> and std::shuffle take a generator. It is a class of ours because <random> takes long to compile.
class UNISONO_API SamplerEngine {
 public:
  using result_type = std::uint64_t;
  explicit SamplerEngine(std::uint64_t seed) noexcept;
  static constexpr std::uint64_t min() noexcept { return 0; }
  static constexpr std::uint64_t max() noexcept { return UINT64_MAX; }
  std::uint64_t operator()() noexcept;

 private:
  void refill() noexcept;
  std::array<std::uint64_t, 312> state_;
  std::size_t next_;
};

struct SamplerOptions {
  std::optional<int> num_replicas = {};  ///< the world's size
  std::optional<int> rank = {};          ///< this process's in the world
  bool shuffle = true;
  std::uint64_t seed = 0;  ///< the same on all ranks
  bool drop_last = false;  ///< leave out the rest that cannot be shared out evenly, instead of repeating samples from the beginning
  /// Of every rank, where they are not alike (LoaderPlan::batch_sizes): the order is cut into steps of their sum, of which each rank takes its batch,
  /// so that all ranks make the same number of steps. Empty: rank r takes every num_replicas-th sample, from the r-th on.
  std::vector<std::size_t> batch_sizes = {};
};

struct ProxySamplerOptions {
  std::optional<int> num_replicas = {};  ///< the world's size
  std::optional<int> rank = {};          ///< this process's in the world
  std::uint64_t seed = 0;                ///< the same on all ranks
};

namespace detail {

/// The part of an order of samples that is one rank's.
class UNISONO_API SampleShare {
 public:
  /// InvalidArgument for a rank outside [0, replicas), or batch sizes that are not one for each rank and more than 0 in all.
  explicit SampleShare(const SamplerOptions& options);
  std::size_t of_rank(std::size_t samples) const;
  std::size_t of_all(std::size_t samples) const;
  /// The order is repeated as often as needed.
  std::vector<std::size_t> take(const std::vector<std::size_t>& order) const;

 private:
  std::size_t steps(std::size_t samples) const;
  std::size_t step_, begin_, width_;
  bool drop_last_;
};

/// 0 … n-1, in an order drawn from the generator: the same on every platform (Fisher and Yates' shuffle; Lemire's bounded numbers).
UNISONO_API std::vector<std::size_t> permutation(std::size_t n, SamplerEngine& engine);
UNISONO_API void warn_of_repeated_epoch(std::uint64_t epoch);
[[noreturn]] UNISONO_API void throw_empty_sampler();

struct DistributedSamplerBase {};

template <class S>
concept has_length = requires(S& sampler) {
  { sampler.size() } -> std::convertible_to<std::size_t>;
};
/// The generator that a draw takes: SamplerEngine, or any other that is made from a seed (std::mt19937, say).
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

/// The samples of one rank, in the order 0 … size-1 or, shuffled, in one drawn from seed + epoch. All ranks get equally many. Iterators are valid
/// until set_epoch.
class UNISONO_API DistributedSampler : public detail::DistributedSamplerBase {
 public:
  explicit DistributedSampler(std::size_t dataset_size, const SamplerOptions& options = {});

  /// To be called before every epoch, on all ranks with the same number; without it, the order stays the same (a warning says so).
  void set_epoch(std::uint64_t epoch);
  std::uint64_t epoch() const { return epoch_; }
  std::size_t size() const;        ///< samples of this rank in an epoch
  std::size_t total_size() const;  ///< of all ranks
  int rank() const { return rank_; }
  int num_replicas() const { return num_replicas_; }

  std::vector<std::size_t> indices() const;
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

/// Shares out what any other sampler yields: a type with size() that is a range of indices, or has `draw(SamplerEngine&)` that returns one (drawn
/// from a generator seeded with seed + epoch, alike on all ranks). It is asked as often as it takes to give every rank equally many. InvalidArgument
/// where it yields nothing.
template <class S>
class DistributedProxySampler : public detail::DistributedSamplerBase {
  static_assert(!std::derived_from<S, detail::DistributedSamplerBase>, "unisono: this sampler is distributed already");
  static_assert(std::derived_from<S, detail::DistributedSamplerBase> || detail::has_length<S>, "unisono: a sampler has a length: std::size_t size()");
  static_assert(!detail::has_length<S> || detail::draws<S> || std::ranges::input_range<S&>,
                "unisono: a sampler is a range of indices, or has draw(unisono::SamplerEngine&) that returns one");

 public:
  explicit DistributedProxySampler(S sampler, const ProxySamplerOptions& options = {})
      : sampler_(std::move(sampler)), share_({.num_replicas = options.num_replicas, .rank = options.rank}), seed_(options.seed) {}

  void set_epoch(std::uint64_t epoch) {
    epoch_ = epoch;
    drawn_already_ = false;
  }
  std::uint64_t epoch() const { return epoch_; }
  std::size_t size() { return share_.of_rank(length()); }
  std::size_t total_size() { return share_.of_all(length()); }
  S& sampler() { return sampler_; }

  std::vector<std::size_t> indices() {
    detail::sampler_engine_t<S> engine(seed_ + epoch_);
    const std::size_t total = total_size();
    std::vector<std::size_t> order;
    order.reserve(total);
    while (order.size() < total) {
      const std::size_t before = order.size();
      if constexpr (detail::draws<S>) {
        append(order, sampler_.draw(engine), total);
      } else {
        append(order, sampler_, total);
      }
      if (order.size() == before) detail::throw_empty_sampler();
    }
    return share_.take(order);
  }
  std::vector<std::size_t>::const_iterator begin() { return drawn().begin(); }
  std::vector<std::size_t>::const_iterator end() { return drawn().end(); }

 private:
  const std::vector<std::size_t>& drawn() {
    if (!drawn_already_) drawn_ = indices();
    drawn_already_ = true;
    return drawn_;
  }
  std::size_t length() { return static_cast<std::size_t>(sampler_.size()); }
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
  std::uint64_t epoch_ = 0;
  bool drawn_already_ = false;
  std::vector<std::size_t> drawn_;
};

}  // namespace unisono
