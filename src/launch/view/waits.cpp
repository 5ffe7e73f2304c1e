#include "launch/view/waits.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

namespace unisono::launcher {
namespace {

/// True where the process could go on. The call of a rank whose process has ended or was stopped waits for nothing any more.
bool can_wait(const RankFacts& rank) { return rank.process.lives && !rank.process.is_stopped && rank.record.state != recorder::RankState::left; }

bool holds(const RankFacts& rank, const recorder::CallSeen& call) {
  if (call.state == recorder::CallState::waiting) return true;
  // In a trace a call that has failed is over. It is what the rank stood in, unless the rank has called again since. The waits of the program for its
  // asynchronous calls are of no group.
  if (!rank.is_trace || call.state != recorder::CallState::failed) return false;
  return std::ranges::none_of(
      rank.record.recent, [&](const recorder::CallSeen& other) { return !other.group.empty() && std::max(other.queued, other.begun) > call.done; });
}

std::uint64_t time_in(const RankFacts& rank, const recorder::CallSeen& call) {
  const std::uint64_t end = call.done != 0 ? call.done : rank.record.now;
  return call.begun == 0 || end < call.begun ? 0 : end - call.begun;
}

/// True where a rank has a receive that takes messages of that sender, group and tag.
bool has_asked(const RankFacts& rank, int sender, const recorder::CallSeen& send) {
  return std::ranges::any_of(rank.record.recent, [&](const recorder::CallSeen& call) {
    return call.kind == Operation::recv && call.group == send.group && call.tag == send.tag && (call.peer == sender || call.peer < 0);
  });
}

/// True where a rank's record reaches back to that moment.
bool remembers(const RankFacts& rank, const recorder::CallSeen& send) {
  const auto& recent = rank.record.recent;
  if (!rank.is_here) return recent.size() >= rank.record.calls;  // its host tells only its last call
  return recent.size() >= rank.record.calls || (!recent.empty() && std::max(recent.front().begun, recent.front().done) < send.done);
}

}  // namespace

Waits::Waits(std::span<const RankFacts> ranks, std::uint64_t at_least) : ranks_(ranks) {
  for (const RankFacts& rank : ranks) {
    if (!can_wait(rank)) continue;
    const auto& recent = rank.record.recent;
    // Several calls may wait: the one that the program itself is in tells what it waits for, or else the one that has waited longest.
    const auto waits = [&](const recorder::CallSeen& call) { return holds(rank, call) && call.waited_for >= 0 && call.begun != 0; };
    auto found = std::ranges::find_if(recent, [&](const recorder::CallSeen& call) { return waits(call) && call.queued == 0; });
    const bool is_direct = found != recent.end();
    if (!is_direct) found = std::ranges::find_if(recent, waits);
    if (found == recent.end() || time_in(rank, *found) < at_least) continue;
    all_.push_back({.rank = &rank,
                    .call = &*found,
                    .for_ns = time_in(rank, *found),
                    .blocks = is_direct || rank.record.program_waits_since != 0 || rank.is_trace});
  }
}

const RankFacts* Waits::find(int rank) const {
  const auto found = std::ranges::find(ranks_, rank, [](const RankFacts& each) { return each.record.rank; });
  return found == ranks_.end() ? nullptr : &*found;
}

const Wait* Waits::of(int rank) const {
  const auto found = std::ranges::find_if(all_, [&](const Wait& wait) { return wait.own() == rank && wait.blocks; });
  return found == all_.end() ? nullptr : &*found;
}

std::vector<int> Waits::company(const Wait& wait) const {
  std::vector<int> ranks;
  for (const Wait& each : all_) {
    // Ranks that wait in collectives of one group wait in the same one: another one would be a Mismatch. Their numbers differ where messages are
    // sent.
    const bool is_same = !is_message(wait.call->kind) && !is_message(each.call->kind) && each.call->group == wait.call->group;
    if (is_same || each.rank == wait.rank) ranks.push_back(each.own());
  }
  return ranks;
}

Stray stray_for(const Waits& waits, const Wait& receiver) {
  const int sender = receiver.call->peer;
  const RankFacts* const from = waits.find(sender);
  if (receiver.call->kind != Operation::recv || from == nullptr) return {};
  Stray astray, elsewhere;
  bool is_open = true;  // no later message to the receiver was asked for
  for (auto call = from->record.recent.rbegin(); call != from->record.recent.rend(); ++call) {
    if (call->kind != Operation::send || call->group != receiver.call->group) continue;
    const RankFacts* const to = waits.find(call->peer);
    const bool is_stray = to != nullptr && remembers(*to, *call) && !has_asked(*to, sender, *call);
    if (call->peer == receiver.own()) {
      is_open = is_open && is_stray;
      if (is_open) astray = {.send = &*call, .to = call->peer};
    }
    if (!is_stray) continue;
    if (elsewhere.send == nullptr && call->tag == receiver.call->tag) elsewhere = {.send = &*call, .to = call->peer};
  }
  return astray.send != nullptr ? astray : elsewhere;
}

std::string ranks_text(const std::vector<int>& ranks) {
  constexpr std::size_t most = 6;
  if (ranks.size() == 1) return fmt::format("rank {}", ranks.front());
  if (ranks.size() > most) return fmt::format("{} ranks", ranks.size());
  std::string text = "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) text += (i == 0 ? "" : i + 1 == ranks.size() ? " and " : ", ") + std::to_string(ranks[i]);
  return text;
}

}  // namespace unisono::launcher
