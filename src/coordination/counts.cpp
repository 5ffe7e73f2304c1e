#include "coordination/counts.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engines/decision.h"
#include "unisono/error.h"

namespace unisono::coordination {
namespace {

std::string list(std::span<const std::uint64_t> counts) {
  constexpr std::size_t most = 32;  // counts that a message shows
  return fmt::format("[{}{}]", fmt::join(counts.first(std::min(counts.size(), most)), ", "), counts.size() > most ? ", …" : "");
}

}  // namespace

CountsComparison::CountsComparison(const CollectiveCall& call, int rank, int size)
    : operation_(call.operation), name_(name_of(call)), sequence_(call.sequence), rank_(rank), size_(static_cast<std::size_t>(size)) {
  mine_.assign(call.counts.begin(), call.counts.end());
  mine_.insert(mine_.end(), call.recv_counts.begin(), call.recv_counts.end());
  all_.resize(mine_.size() * size_);
}

CollectiveCall CountsComparison::gather() {
  CollectiveCall call;
  call.operation = Operation::all_gather;
  call.in = TensorView(mine_.data(), DType::uint64, mine_.size());
  call.out = TensorView(all_.data(), DType::uint64, all_.size());
  call.count = mine_.size();
  call.sequence = sequence_;
  return call;
}

Carried CountsComparison::carried() const {
  const auto own = std::as_bytes(std::span(mine_));
  return {.own = own, .each = own.size()};
}

void CountsComparison::judge(const Carried& come, const GroupTopology& topology) {
  for (std::size_t r = 0; r < size_; ++r) std::memcpy(all_.data() + r * mine_.size(), come.of(static_cast<int>(r), topology), come.each);
  judge();
}

void CountsComparison::judge() const {
  if (operation_ == Operation::all_to_all_v) judge_pairs();
  else judge_lists();
}

void CountsComparison::judge_pairs() const {
  const std::size_t width = mine_.size();
  std::vector<engines::Conflict> conflicts;
  for (std::size_t from = 0; from < size_; ++from) {
    for (std::size_t to = 0; to < size_; ++to) {
      const std::uint64_t sent = all_[from * width + to], expected = all_[to * width + size_ + from];
      if (sent == expected) continue;
      conflicts.push_back({.a = static_cast<int>(from),
                           .b = static_cast<int>(to),
                           .text = fmt::format("rank {} sends {} elements to rank {}, which expects {}", from, sent, to, expected)});
    }
  }
  if (!conflicts.empty()) throw_mismatch(engines::decide(conflicts, static_cast<int>(size_)));
}

void CountsComparison::judge_lists() const {
  const std::size_t width = mine_.size();
  std::vector<engines::Ballot> ballots;
  for (std::size_t r = 0; r < size_; ++r) {
    const std::span<const std::uint64_t> given(all_.data() + r * width, width);
    ballots.push_back({.rank = static_cast<int>(r),
                       .key = std::string(reinterpret_cast<const char*>(given.data()), given.size_bytes()),
                       .call = "gives the counts " + list(given)});
  }
  const bool same = std::ranges::all_of(ballots, [&](const engines::Ballot& ballot) { return ballot.key == ballots.front().key; });
  if (!same) throw_mismatch(engines::decide(ballots));
}

void CountsComparison::throw_mismatch(const engines::Decision& decision) const {
  throw engines::Disagreement(
      engines::describe(decision, decision.blames(rank_)),
      {.operation = name_, .sequence = sequence_, .rank = rank_, .culprit = decision.culprit(), .hint = engines::mismatch_hint}, decision.ranks);
}

}  // namespace unisono::coordination
