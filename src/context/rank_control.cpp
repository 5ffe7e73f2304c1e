#include "unisono/rank_control.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "engines/device_memory.h"
#include "context/state.h"
#include "base/error_text.h"
#include "group/group.h"
#include "unisono/detail/request.h"
#include "unisono/error.h"

namespace unisono {
namespace {

constexpr std::size_t longest_text = std::size_t{64} << 10;

// The ranks agree on the largest of one number each: 0 if all went well, else the failed rank plus one and the length of its text. A rank brings no
// text where its exception is still being thrown; the broadcast of the text is then left out.
struct Outcome {
  int culprit = -1;
  std::size_t text = 0;

  std::uint64_t pack() const { return (static_cast<std::uint64_t>(culprit + 1) << 32) | text; }
  static Outcome unpack(std::uint64_t word) { return {static_cast<int>(word >> 32) - 1, static_cast<std::size_t>(word & 0xffffffff)}; }
};

detail::Request compare(std::uint64_t& word, std::string_view operation) {
  const TensorView view(&word, DType::uint64, std::size_t{1});
  return {.operation = Operation::all_reduce, .in = view, .out = view, .op = ReduceOp::max, .label = operation};
}

[[noreturn]] void throw_failure_of(int culprit, const std::string& text, const ProcessGroup& group, std::string_view operation) {
  throw PeerFailed(fmt::format("rank {} failed: {}", culprit, text.empty() ? "an exception left its scope" : text),
                   {.operation = std::string(operation),
                    .group = group.name(),
                    .sequence = group.implementation()->facts().sequence(),
                    .rank = group.rank(),
                    .culprit = culprit,
                    .host = group.implementation()->facts().host_name(culprit),
                    .hint = "the group is sound and can go on"},
                   PeerFailed::Cause::aborted);
}

/// Starts the agreement and returns at once. The number stays alive until the library is done with it.
void bring_without_waiting(Outcome outcome, const ProcessGroup& group, std::string_view operation) {
  struct UnderWay {
    std::uint64_t word;
    Work work = {};
  };
  static auto& mutex = *new std::mutex;  // both live until the process ends
  static auto& all = *new std::list<UnderWay>;
  const std::lock_guard lock(mutex);
  std::erase_if(all, [](const UnderWay& one) { return one.work.is_completed(); });
  UnderWay& own = all.emplace_back(UnderWay{outcome.pack()});
  try {
    own.work = detail::start(compare(own.word, operation), group, {});
  } catch (const Error&) {  // the group is over, and the others know already
    all.pop_back();
  }
}

/// Returns how many ranks the fullest host has, which is the same on every rank.
int most_local_ranks(const context::State& state) {
  std::map<std::string_view, int> ranks;
  int most = 1;
  const base::RepeatedTexts& hosts = state.topology.host_names;
  for (std::size_t r = 0; r < hosts.size(); ++r) most = std::max(most, ++ranks[hosts[r]]);
  return most;
}

/// Tells whether this rank is its host's first. On a host with `wanted` or fewer ranks the last one is the first. In a group that is a part of the
/// world only the host's ranks in that group count.
bool is_first_of_host(const context::State& state, const ProcessGroup& group, int wanted) {
  std::vector<int> members;
  for (const int r : state.topology.local_members) {
    if (group.contains(GlobalRank{r})) members.push_back(r);
  }
  const int last = static_cast<int>(members.size()) - 1;
  const bool is_whole = group.size() == state.world_size;
  const bool has_grown = state.job.facts.growth.generation > 1;  // the local ranks are those of the places then, which may have gaps
  if (is_whole && wanted <= last && !has_grown) return state.topology.local_rank == wanted;
  return members[static_cast<std::size_t>(std::min(wanted, last))] == state.rank;
}

}  // namespace

int detail::rank_within(Rank rank, const ProcessGroup& group, std::string_view operation) {
  const auto found = rank.is_global() ? group.rank_of(GlobalRank{rank.value()})
                                      : (rank.value() >= 0 && rank.value() < group.size() ? std::optional(rank.value()) : std::nullopt);
  if (found) return *found;
  throw InvalidArgument(rank.is_global() ? fmt::format("global rank {} is not in the group", rank.value())
                                         : fmt::format("the rank must be from 0 to {}, not {}", group.size() - 1, rank.value()),
                        {.operation = std::string(operation), .group = group.name(), .rank = group.rank()});
}

void detail::agree(const ProcessGroup& group, std::string_view operation, const std::exception_ptr& error, const std::source_location& where) {
  std::string text = error ? base::what_of(error).substr(0, longest_text) : std::string();
  try {
    std::uint64_t word = error ? Outcome{group.rank(), text.size()}.pack() : 0;
    run(compare(word, operation), group, {.where = where});
    const Outcome outcome = Outcome::unpack(word);
    if (outcome.culprit < 0) return;
    if (outcome.culprit != group.rank()) text.assign(outcome.text, '\0');
    if (outcome.text > 0) {
      const TensorView view(text.data(), DType::uint8, text.size());
      run({.operation = Operation::broadcast, .in = view, .out = view, .root = Rank(outcome.culprit), .label = operation}, group, {.where = where});
    }
    if (!error) throw_failure_of(outcome.culprit, text, group, operation);
  } catch (...) {
    if (!error) throw;  // an own error takes precedence over the group's failure
  }
  if (error) std::rethrow_exception(error);
}

OneRankFirst::OneRankFirst(const OneRankFirstOptions& options)
    : group_(options.group ? *options.group : current_world(options.where)), where_(options.where), exceptions_(std::uncaught_exceptions()) {
  if (options.local) {
    const context::State& state = context::current();
    const int most = most_local_ranks(state);
    if (options.rank.is_global() || options.rank.value() < 0 || options.rank.value() >= most) {
      throw InvalidArgument(fmt::format("the local rank must be from 0 to {}, not {}", most - 1, options.rank.value()),
                            {.operation = "OneRankFirst", .group = group_.name(), .rank = group_.rank()});
    }
    is_first_ = is_first_of_host(state, group_, options.rank.value());
  } else {
    is_first_ = detail::rank_within(options.rank, group_, "OneRankFirst") == group_.rank();
  }
  if (!is_first_) detail::agree(group_, "OneRankFirst", nullptr, where_);
}

OneRankFirst::~OneRankFirst() noexcept(false) {
  if (!is_first_) return;
  if (std::uncaught_exceptions() > exceptions_) {
    try {
      bring_without_waiting({group_.rank(), 0}, group_, "OneRankFirst");
    } catch (...) {  // NOLINT(bugprone-empty-catch): out of memory; the others' deadline ends their wait
    }
    return;
  }
  detail::agree(group_, "OneRankFirst", nullptr, where_);
}

namespace {

constexpr int bits_of_mib = 20;

std::optional<Device> own_device() {
  const context::State* state = context::initialized();
  return state == nullptr ? std::nullopt : state->device();
}

}  // namespace

std::size_t gpu_mem_usage() {
  const auto device = own_device();
  return device ? engines::device_memory_in_use(*device) >> bits_of_mib : 0;
}
std::size_t gpu_mem_peak() {
  const auto device = own_device();
  if (!device) return 0;
  static_cast<void>(engines::device_memory_in_use(*device));
  return engines::device_memory_peak() >> bits_of_mib;
}

}  // namespace unisono
