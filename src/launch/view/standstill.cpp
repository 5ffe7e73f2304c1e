#include "launch/view/standstill.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "launch/view/rank_facts.h"
#include "recorder/recorder.h"
#include "recorder/whereabouts.h"

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

std::string tag_text(int tag) { return tag == 0 ? "without a tag" : fmt::format("with tag {}", tag); }
std::string place_or_call(const recorder::CallSeen& call) { return call.place.empty() ? call_text(call) : call.place; }

/// Says what a rank does in its program, between two calls.
std::string program_text(const RankFacts& rank) {
  const recorder::RankSeen& record = rank.record;
  const std::string system = record.is_copy || !rank.is_here ? "" : system_wait_of(record.pid);
  const std::string also = system.empty() ? "" : ", where it " + system;
  // A trace also has the waits of the program for asynchronous calls, which are of no group.
  const auto found = std::ranges::find_if(record.recent.rbegin(), record.recent.rend(), [](const auto& call) { return !call.group.empty(); });
  if (found == record.recent.rend()) return fmt::format("it is in the program{}, and has made no call yet", also);
  const recorder::CallSeen& last = *found;
  if (!last.is_over() && last.queued == 0) return fmt::format("it is busy in {}", placed_text(last));
  const auto over = std::ranges::find_if(record.recent.rbegin(), record.recent.rend(), &recorder::CallSeen::is_over);
  const std::uint64_t done = over == record.recent.rend() ? 0 : over->done;
  const std::string since = done == 0 || done > record.now ? "" : fmt::format(" for {}", duration_text(record.now - done));
  return fmt::format("it is in the program{}{}, last seen in {}", since, also, placed_text(last));
}

/// Says what a rank does that others wait for, and that waits for nobody, or not for long.
std::string whereabouts(const RankFacts& rank) {
  const auto& recent = rank.record.recent;
  const std::string last = recent.empty() ? "" : fmt::format(", last seen in {}", placed_text(recent.back()));
  if (rank.record.state == recorder::RankState::left) return "it has left the job with finalize" + last;
  if (!rank.process.lives) return "its process has ended" + last;
  if (rank.process.is_stopped) return "its process is stopped" + last;
  const auto waiting =
      std::ranges::find_if(recent, [](const recorder::CallSeen& call) { return call.state == recorder::CallState::waiting && call.queued == 0; });
  if (waiting == recent.end() || waiting->begun == 0) return program_text(rank);
  const std::string whom = waiting->waited_for < 0 ? "" : fmt::format(", and waits for rank {}", waiting->waited_for);
  return fmt::format("it is in {} for {}{}", placed_text(*waiting), duration_text(rank.record.now - std::min(rank.record.now, waiting->begun)), whom);
}

/// Says in what others wait for a rank.
std::string demand(const Waits& waits, const Wait& wait, int late) {
  const std::string time = duration_text(wait.for_ns);
  if (wait.call->kind == Operation::recv)
    return fmt::format("rank {} waits in {} for a message of rank {} {} for {}", wait.own(), placed_text(*wait.call), late, tag_text(wait.call->tag),
                       time);
  if (wait.call->kind == Operation::send)
    return fmt::format("rank {} waits in {} for {} until rank {} receives its message", wait.own(), placed_text(*wait.call), time, late);
  const std::vector<int> company = waits.company(wait);
  const std::string whom = company.size() < 2 ? "" : fmt::format(", in which {} wait", ranks_text(company));
  return fmt::format("rank {} has not come to {}{} for {}", late, placed_text(*wait.call), whom, time);
}

/// Says that the sender has sent something else than what is waited for; empty: it has not.
std::string stray_text(const Waits& waits, const Wait& wait) {
  const auto [send, to] = stray_for(waits, wait);
  if (send == nullptr) return {};
  if (to != wait.own())
    return fmt::format("rank {} has sent one {} to rank {} ({}), which has not asked for it", wait.call->peer, tag_text(send->tag), to,
                       placed_text(*send));
  return fmt::format("rank {} has sent it one {} ({}), which it has not asked for", wait.call->peer, tag_text(send->tag), placed_text(*send));
}

std::string stray_advice(const Waits& waits, const Wait& wait) {
  const auto [send, to] = stray_for(waits, wait);
  return send == nullptr
             ? ""
             : fmt::format("compare {} with {}: sender, receiver, group and tag must fit", place_or_call(*send), place_or_call(*wait.call));
}

/// A rank that others wait for, and that does not wait itself.
Delay root_delay(const Waits& waits, const Wait& wait, int late) {
  Delay delay{.text = demand(waits, wait, late), .late = late, .for_ns = wait.for_ns, .call = *wait.call};
  const RankFacts* const rank = waits.find(late);
  const std::string stray = stray_text(waits, wait);
  if (!stray.empty()) delay.text += ": " + stray;
  if (rank == nullptr) {
    delay.text += ": it is on another host, or was not recorded";
    delay.advice = "`unisono status` on its host shows what it does";
    return delay;
  }
  delay.text += (stray.empty() ? ": " : fmt::format("; rank {}: ", late)) + whereabouts(*rank);
  if (!stray.empty()) delay.advice = stray_advice(waits, wait);
  else if (rank->process.lives && rank->is_here && rank->record.state != recorder::RankState::left && !rank->record.is_copy)
    delay.advice = rank->process.is_stopped ? fmt::format("`kill -CONT {}` lets it go on", rank->record.pid)
                                            : fmt::format("`unisono status --stacks` shows where in the program rank {} is", late);
  return delay;
}

/// Says what each rank of a circle waits for, from the second one on.
std::string links_text(const std::vector<Wait>& circle) {
  constexpr std::size_t most = 4;
  std::string text;
  for (std::size_t i = 1; i < circle.size() && i <= most; ++i)
    text += fmt::format("; rank {} is in {}, and waits for rank {}", circle[i].own(), placed_text(*circle[i].call), circle[i].other());
  if (circle.size() > most + 1) text += "; and so on";
  return text;
}

/// Ranks of which all but one wait in the same collective: that one has gone past it.
Delay strayed_delay(const Waits& waits, const std::vector<Wait>& circle) {
  const Wait& late = circle.front();
  const Wait& before = circle.back();  // it waits for the late one
  Delay delay{.text = demand(waits, before, late.own()), .late = late.own(), .for_ns = before.for_ns, .call = *before.call};
  delay.text += fmt::format(": it is in {}, and waits for rank {}", placed_text(*late.call), late.other());
  if (circle.size() > 2) delay.text += links_text({circle.begin(), circle.end() - 1});
  else delay.text += ", which is one of them";
  const std::string here = place_or_call(*late.call), there = place_or_call(*before.call);
  delay.advice = !is_message(late.call->kind) && late.call->group != before.call->group
                     ? fmt::format(
                           "groups that share ranks must be called in one order by all of them: see what brings rank {} to {} before {}, and whether "
                           "the others come there at all",
                           late.own(), here, there)
                     : fmt::format("see what leads rank {} past {} to {}: a condition, an early continue or return", late.own(), there, here);
  return delay;
}

Delay mutual_delay(const std::vector<Wait>& circle) {
  std::vector<int> ranks;
  std::uint64_t shortest = UINT64_MAX;
  for (const Wait& wait : circle) {
    ranks.push_back(wait.own());
    shortest = std::min(shortest, wait.for_ns);
  }
  std::ranges::sort(ranks);
  Delay delay{.text = fmt::format("{} wait for each other for {}: rank {} is in {}, and waits for rank {}", ranks_text(ranks),
                                  duration_text(shortest), circle.front().own(), placed_text(*circle.front().call), circle.front().other()),
              .advice = "none of these calls can go on before another one of them: compare their order",
              .late = circle.front().own(),
              .for_ns = shortest,
              .call = *circle.back().call};
  delay.text += links_text(circle);
  const auto sends = [](const Wait& wait) { return wait.call->kind == Operation::send; };
  if (std::ranges::all_of(circle, sends)) delay.advice = recorder::advice_for_sends;
  return delay;
}

/// A receive in the circle whose sender has sent it something else.
const Wait* misled(const Waits& waits, const std::vector<Wait>& circle) {
  const auto found = std::ranges::find_if(circle, [&](const Wait& wait) { return stray_for(waits, wait).to == wait.own(); });
  return found == circle.end() ? nullptr : &*found;
}

Delay circle_delay(const Waits& waits, std::vector<Wait> circle) {
  Delay delay;
  if (const Wait* const receiver = misled(waits, circle)) {
    delay = root_delay(waits, *receiver, receiver->other());
  } else {
    // The rank with the fewest companions has left the way of the others.
    const auto company = [&](const Wait& wait) { return waits.company(wait).size(); };
    const auto [fewest, most] = std::ranges::minmax_element(circle, {}, company);
    const std::size_t least = company(*fewest);
    const bool is_one = least < company(*most) && std::ranges::count_if(circle, [&](const Wait& wait) { return company(wait) == least; }) == 1;
    std::ranges::rotate(circle, fewest);
    delay = is_one ? strayed_delay(waits, circle) : mutual_delay(circle);
  }
  for (const Wait& wait : circle) delay.circle.push_back(wait.own());
  return delay;
}

/// A receive from any rank, where others could still send.
Delay anybody_delay(std::span<const RankFacts> ranks, const Waits& waits, const Wait& wait) {
  std::vector<int> free;
  for (const RankFacts& rank : ranks) {
    if (rank.record.rank != wait.own() && rank.process.lives && waits.of(rank.record.rank) == nullptr) free.push_back(rank.record.rank);
  }
  Delay delay{.text = fmt::format("rank {} waits in {} for a message of any rank {} for {}", wait.own(), placed_text(*wait.call),
                                  tag_text(wait.call->tag), duration_text(wait.for_ns)),
              .late = free.empty() ? wait.own() : free.front(),
              .for_ns = wait.for_ns,
              .call = *wait.call};
  if (free.empty()) {
    delay.text += ", and no rank can send one: all others wait";
    delay.advice = "see which rank should have sent it before it waits";
  } else {
    delay.text += fmt::format(": {} could send one; rank {}: {}", ranks_text(free), free.front(), whereabouts(*waits.find(free.front())));
  }
  return delay;
}

/// Follows the waits from a rank on. What does not end in a circle ends at a rank that does not wait, or waits for anybody.
struct End {
  const Wait* last = nullptr;  // the wait for the rank at the end
  int rank = -1;
  std::vector<Wait> circle = {};
};

End end_of(const Waits& waits, const Wait& first) {
  End end{.last = &first, .rank = first.other()};
  std::vector<Wait> way;
  if (first.blocks) way.push_back(first);
  for (;;) {
    const Wait* const next = waits.of(end.rank);
    if (next == nullptr || next->is_for_anybody()) return end;
    if (const auto again = std::ranges::find(way, next->own(), &Wait::own); again != way.end()) {
      end.circle.assign(again, way.end());
      return end;
    }
    way.push_back(*next);
    end.last = next;
    end.rank = next->other();
  }
}

}  // namespace

Waits::Waits(std::span<const RankFacts> ranks, std::uint64_t at_least) : ranks_(ranks) {
  for (const RankFacts& rank : ranks) {
    if (!can_wait(rank)) continue;
    const auto& recent = rank.record.recent;
    // Several calls may wait: the one that the program itself is in tells what it waits for, or else the one that has waited longest.
    const auto waits = [&](const recorder::CallSeen& call) {
      return holds(rank, call) && call.waited_for >= 0 && call.begun != 0 && call.operation != recorder::controller_label;
    };
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

std::vector<Delay> delays_of(std::span<const RankFacts> ranks, std::uint64_t at_least) {
  const Waits waits(ranks, at_least);
  std::map<int, const Wait*> roots;  // by the rank that is waited for: the call that has waited longest for it
  std::set<std::vector<int>> circles;
  std::vector<Delay> found, in_circles;
  for (const Wait& wait : waits.all()) {
    if (wait.is_for_anybody()) {
      found.push_back(anybody_delay(ranks, waits, wait));
      continue;
    }
    const End end = end_of(waits, wait);
    if (end.circle.empty()) {
      if (waits.of(end.rank) != nullptr) continue;  // it waits for anybody, and is told as such
      const Wait*& longest = roots[end.rank];
      if (longest == nullptr || end.last->for_ns > longest->for_ns) longest = end.last;
      continue;
    }
    std::vector<int> members;
    for (const Wait& each : end.circle) members.push_back(each.own());
    std::ranges::sort(members);
    if (circles.insert(members).second) in_circles.push_back(circle_delay(waits, end.circle));
  }
  for (const auto& [late, wait] : roots) found.push_back(root_delay(waits, *wait, late));
  std::ranges::stable_sort(found, std::greater<>{}, &Delay::for_ns);
  std::ranges::stable_sort(in_circles, std::greater<>{}, &Delay::for_ns);
  std::ranges::move(in_circles, std::back_inserter(found));
  return found;
}

}  // namespace unisono::launcher
