#include "group/calls/packing.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "engines/decision.h"
#include "group/group_core.h"
#include "unisono/call.h"

namespace unisono::group {

/// Compares the callables of a call by what they do, after the call has thrown CallablesDiffer on every rank. Each rank gives a few of its elements
/// to all, applies its callable to every pair of the elements that it got, and gives the results to all. It throws Mismatch on every rank where they
/// differ. Else the callable of `call` counts as the same on all ranks from then on. `call` has contiguous views and lives as long as the task.
class CallableTrial final : public Task {
 public:
  CallableTrial(GroupCore& core, CollectiveCall& call);
  ~CallableTrial() override;
  bool advance() override;
  std::vector<int> waiting_for() const override { return current_->waiting_for(); }
  bool wakes_waiter() const override { return current_->wakes_waiter(); }
  bool sleep(std::chrono::nanoseconds at_most) override { return current_->sleep(at_most); }

 private:
  struct Sample;
  struct Results;
  void gather(const void* mine, void* all, std::size_t bytes);
  void take_samples();
  void choose_operands();
  void apply();
  void judge() const;
  std::size_t ranks() const;

  GroupCore& core_;
  CollectiveCall& call_;
  CollectiveCall gather_;
  std::vector<Sample> samples_;
  std::vector<Results> results_;
  std::vector<std::byte> operands_;
  bool has_results_ = false;
  std::unique_ptr<Task> current_;
};

namespace {

constexpr std::size_t samples_of_rank = 4, most_operands = 6, largest_element = 16;
constexpr std::size_t positions_looked_at = 4096;

/// An element as numbers: itself, or its parts.
struct Numbers {
  std::array<long double, 2> parts{};
  bool is_complex = false;
  long double precision = 0;  ///< the distance of 1 to the next number; 0: every number is exact
};

template <class T>
T read(const std::byte* from) {
  T x;
  std::memcpy(&x, from, sizeof x);
  return x;
}

template <class T>
Numbers numbers(const std::byte* from) {
  if constexpr (std::numeric_limits<T>::is_integer) return {.parts = {static_cast<long double>(read<T>(from))}};
  else return {.parts = {read<T>(from)}, .precision = std::numeric_limits<T>::epsilon()};
}

Numbers numbers_in(const std::byte* from, DType dtype) {
  switch (dtype) {
    case DType::boolean:
    case DType::uint8: return numbers<std::uint8_t>(from);
    case DType::int8: return numbers<std::int8_t>(from);
    case DType::int16: return numbers<std::int16_t>(from);
    case DType::int32: return numbers<std::int32_t>(from);
    case DType::int64: return numbers<std::int64_t>(from);
    case DType::uint16: return numbers<std::uint16_t>(from);
    case DType::uint32: return numbers<std::uint32_t>(from);
    case DType::uint64: return numbers<std::uint64_t>(from);
    case DType::float16: return {.parts = {static_cast<float>(read<float16>(from))}, .precision = 0x1p-10L};
    case DType::bfloat16: return {.parts = {static_cast<float>(read<bfloat16>(from))}, .precision = 0x1p-7L};
    case DType::float32: return numbers<float>(from);
    case DType::float64: return numbers<double>(from);
    case DType::complex64: return {{read<float>(from), read<float>(from + sizeof(float))}, true, std::numeric_limits<float>::epsilon()};
    case DType::complex128: return {{read<double>(from), read<double>(from + sizeof(double))}, true, std::numeric_limits<double>::epsilon()};
  }
  return {};
}

std::string text_of(const std::byte* element, DType dtype) {
  const Numbers x = numbers_in(element, dtype);
  if (dtype == DType::boolean) return x.parts[0] != 0 ? "true" : "false";
  const int digits = x.precision == 0 ? 20 : 7;
  if (x.is_complex) return fmt::format("({:.{}g}, {:.{}g})", x.parts[0], digits, x.parts[1], digits);
  return fmt::format("{:.{}g}", x.parts[0], digits);
}

/// Tells whether two results are equal but for rounding: compilers may contract or order the operations of a callable differently.
bool are_alike(const std::byte* one, const std::byte* other, DType dtype) {
  constexpr long double most_roundings = 8;
  const Numbers a = numbers_in(one, dtype), b = numbers_in(other, dtype);
  const auto alike = [&](long double x, long double y, long double scale) {
    if (x == y || (std::isnan(x) && std::isnan(y))) return true;
    return std::isfinite(x) && std::isfinite(y) && std::abs(x - y) <= most_roundings * a.precision * scale;
  };
  const long double scale = std::max({std::abs(a.parts[0]), std::abs(b.parts[0]), std::abs(a.parts[1]), std::abs(b.parts[1])});
  return alike(a.parts[0], b.parts[0], scale) && alike(a.parts[1], b.parts[1], scale);
}

/// Adds an element to a list of elements, unless it is there or the list is full.
void add(std::vector<std::byte>& list, const std::byte* element, std::size_t bytes, std::size_t most) {
  for (std::size_t at = 0; at < list.size(); at += bytes) {
    if (std::memcmp(list.data() + at, element, bytes) == 0) return;
  }
  if (list.size() < most * bytes) list.insert(list.end(), element, element + bytes);
}

std::string place_of(const detail::CustomReduction& custom) {
  if (custom.where.line() == 0) return std::string(custom.description);
  const std::string_view file = custom.where.file_name();
  return fmt::format("at {}:{}:{}", file.substr(file.rfind('/') + 1), custom.where.line(), custom.where.column());
}

std::shared_ptr<const detail::CustomReduction> alike_on_all_ranks(const CollectiveCall& call) {
  auto alike = std::make_shared<detail::CustomReduction>(*call.custom);
  alike->name = "tried by all ranks";
  alike->captured = 0;
  return alike;
}

}  // namespace

struct CallableTrial::Sample {
  std::uint64_t code = 0;
  std::uint64_t bytes = 0;
  std::array<std::byte, samples_of_rank * largest_element> elements{};
};

struct CallableTrial::Results {
  std::array<char, 64> place{};
  std::array<std::byte, most_operands * most_operands * largest_element> elements{};
};

CallableTrial::CallableTrial(GroupCore& core, CollectiveCall& call) : core_(core), call_(call), samples_(ranks()), results_(ranks()) {
  take_samples();
}
CallableTrial::~CallableTrial() = default;

std::size_t CallableTrial::ranks() const { return static_cast<std::size_t>(core_.coordination().size()); }

void CallableTrial::gather(const void* mine, void* all, std::size_t bytes) {
  current_.reset();
  gather_ = {};
  gather_.operation = Operation::all_gather;
  gather_.in = TensorView(const_cast<void*>(mine), DType::uint8, bytes);
  gather_.out = TensorView(all, DType::uint8, bytes * ranks());
  gather_.count = bytes;
  gather_.sequence = call_.sequence;
  gather_.label = "the comparison of callables";
  current_ = core_.executor().start(gather_);
}

void CallableTrial::take_samples() {
  const std::size_t element = size_of(call_.in.dtype()), n = static_cast<std::size_t>(call_.in.numel());
  const auto* const elements = static_cast<const std::byte*>(call_.in.data());
  std::vector<std::byte> chosen;
  const std::size_t stride = std::max<std::size_t>(n / positions_looked_at, 1);
  for (std::size_t i = 0; i < n && chosen.size() < samples_of_rank * element; i += stride)
    add(chosen, elements + i * element, element, samples_of_rank);
  Sample& own = samples_[static_cast<std::size_t>(core_.coordination().rank())];
  own.code = call_.custom->code;
  own.bytes = chosen.size();
  std::ranges::copy(chosen, own.elements.begin());
  gather(&own, samples_.data(), sizeof own);
}

// The first elements of all ranks, then the second ones, and so on, so that the ranks' data is among them.
void CallableTrial::choose_operands() {
  const std::size_t element = size_of(call_.in.dtype());
  for (std::size_t at = 0; at < samples_of_rank * element; at += element) {
    for (const Sample& sample : samples_) {
      if (at < sample.bytes) add(operands_, sample.elements.data() + at, element, most_operands);
    }
  }
}

void CallableTrial::apply() {
  const std::size_t element = size_of(call_.in.dtype());
  Results& own = results_[static_cast<std::size_t>(core_.coordination().rank())];
  const std::string place = place_of(*call_.custom);
  place.copy(own.place.data(), own.place.size() - 1);
  std::byte* result = own.elements.data();
  for (std::size_t a = 0; a < operands_.size(); a += element) {
    for (std::size_t b = 0; b < operands_.size(); b += element, result += element) {
      alignas(largest_element) std::array<std::byte, largest_element> left{}, right{};
      std::memcpy(left.data(), operands_.data() + a, element);
      std::memcpy(right.data(), operands_.data() + b, element);
      call_.custom->combine(left.data(), right.data(), 1);
      std::memcpy(result, left.data(), element);
    }
  }
  gather(&own, results_.data(), sizeof own);
}

void CallableTrial::judge() const {
  const DType dtype = call_.in.dtype();
  const std::size_t element = size_of(dtype), operands = operands_.size() / element;
  for (std::size_t i = 0; i < operands * operands; ++i) {
    const auto result = [&](std::size_t rank) { return results_[rank].elements.data() + i * element; };
    std::vector<std::size_t> kinds;  // a rank of each
    std::vector<engines::Ballot> ballots;
    for (std::size_t r = 0; r < ranks(); ++r) {
      auto kind = std::ranges::find_if(kinds, [&](std::size_t other) { return are_alike(result(r), result(other), dtype); });
      if (kind == kinds.end()) kind = kinds.insert(kinds.end(), r);
      const std::string_view place = results_[r].place.data();
      const auto operand = [&](std::size_t number) { return text_of(operands_.data() + number * element, dtype); };
      ballots.push_back({.rank = static_cast<int>(r),
                         .key = std::to_string(*kind),
                         .call = fmt::format("{} with a callable {}{}that makes {} of {} and {}", name_of(call_), place, place.empty() ? "" : " ",
                                             text_of(result(r), dtype), operand(i / operands), operand(i % operands))});
    }
    if (kinds.size() == 1) continue;
    const int rank = core_.coordination().rank();
    const engines::Decision decision = engines::decide(ballots);
    throw engines::Disagreement(engines::describe(decision, decision.blames(rank)),
                                {.operation = std::string(name_of(call_)),
                                 .sequence = call_.sequence,
                                 .rank = rank,
                                 .culprit = decision.culprit(),
                                 .hint = engines::mismatch_hint},
                                decision.ranks);
  }
}

bool CallableTrial::advance() {
  if (!current_->advance()) return false;
  if (!std::exchange(has_results_, true)) {
    choose_operands();
    apply();
    if (!current_->advance()) return false;
  }
  judge();
  const auto is_own_code = [&](const Sample& sample) { return sample.code == call_.custom->code; };
  if (call_.custom->code != 0 && std::ranges::all_of(samples_, is_own_code)) core_.tried_callables().add(call_.custom->code);
  call_.custom = alike_on_all_ranks(call_);
  return true;
}

void TriedCallables::add(std::uint64_t code) {
  const std::lock_guard lock(mutex_);
  codes_.insert(code);
}

void TriedCallables::recognise(CollectiveCall& call) const {
  if (!call.custom->name.empty() || call.custom->captured == std::optional<std::uint64_t>(0)) return;
  const std::lock_guard lock(mutex_);
  if (!codes_.contains(call.custom->code)) return;
  auto known = std::make_shared<detail::CustomReduction>(*call.custom);
  known->captured = 0;
  call.custom = std::move(known);
}

namespace {

/// A collective with a callable of the program's.
class CollectiveWithCallable final : public Task {
 public:
  CollectiveWithCallable(GroupCore& core, const CollectiveCall& call) : core_(core), call_(call) {
    core_.tried_callables().recognise(call_);
    current_ = core_.executor().start(call_);
  }
  bool advance() override {
    for (;;) {
      try {
        if (!current_->advance()) return false;
        if (!std::exchange(is_trial_, false)) return true;
      } catch (const engines::CallablesDiffer&) {
        is_trial_ = true;
      }
      current_.reset();
      if (is_trial_) current_ = std::make_unique<CallableTrial>(core_, call_);
      else current_ = core_.executor().start(call_);
    }
  }
  std::vector<int> waiting_for() const override { return current_->waiting_for(); }
  bool wakes_waiter() const override { return current_->wakes_waiter(); }
  bool sleep(std::chrono::nanoseconds at_most) override { return current_->sleep(at_most); }

 private:
  GroupCore& core_;
  CollectiveCall call_;
  std::unique_ptr<Task> current_;
  bool is_trial_ = false;
};

}  // namespace

std::unique_ptr<Task> start_collective(GroupCore& core, const CollectiveCall& call) {
  if (!call.custom) return core.executor().start(call);
  return std::make_unique<CollectiveWithCallable>(core, call);
}

void run_callable(GroupCore& core, CollectiveCall& call, Waiter& waiter) {
  core.tried_callables().recognise(call);
  try {
    return core.executor().run(call, waiter);
  } catch (const engines::CallablesDiffer&) {  // NOLINT(bugprone-empty-catch): it is tried below
  }
  CallableTrial trial(core, call);
  if (!trial.advance()) waiter.wait(trial);
  core.executor().run(call, waiter);
}

}  // namespace unisono::group
