#include "launch/view/standstill.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "launch/process/system_wait.h"
#include "launch/view/waits.h"
#include "recorder/whereabouts.h"

namespace unisono::launcher {
namespace {

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
  Delay delay{.text = demand(waits, wait, late), .advice = {}, .late = late, .for_ns = wait.for_ns, .circle = {}, .call = *wait.call};
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
  Delay delay{
      .text = demand(waits, before, late.own()), .advice = {}, .late = late.own(), .for_ns = before.for_ns, .circle = {}, .call = *before.call};
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
              .circle = {},
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
              .advice = {},
              .late = free.empty() ? wait.own() : free.front(),
              .for_ns = wait.for_ns,
              .circle = {},
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
  std::vector<Wait> circle;
};

End end_of(const Waits& waits, const Wait& first) {
  End end{.last = &first, .rank = first.other(), .circle = {}};
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
