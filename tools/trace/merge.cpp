#include "trace/merge.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <tuple>

#include "unisono/operation.h"

namespace unisono::tools {
namespace {

/// The rank of the group that a rank needs before it can end a collective.
enum class Needs { nobody, root, all };

Needs needs_of(const recorder::TracedCall& call, int rank) {
  const OperationTraits& traits = traits_of(static_cast<Operation>(call.operation));
  const bool is_root = call.peer == rank;
  if (traits.senders == Participants::root) return is_root ? Needs::nobody : Needs::root;
  if (traits.receivers == Participants::root) return is_root ? Needs::all : Needs::nobody;
  return Needs::all;
}

/// Returns how much of [begin, end) lies in intervals that are sorted by their beginnings.
std::uint64_t overlap(const std::vector<std::pair<std::uint64_t, std::uint64_t>>& intervals, std::uint64_t begin, std::uint64_t end) {
  std::uint64_t sum = 0, covered = begin;
  auto it = std::ranges::partition_point(intervals, [&](const auto& each) { return each.second <= begin; });
  for (; it != intervals.end() && it->first < end; ++it) {
    const std::uint64_t from = std::max(it->first, covered), to = std::min(it->second, end);
    if (to <= from) continue;
    sum += to - from;
    covered = to;
  }
  return sum;
}

}  // namespace

Merge::Merge(JobTrace& trace) : trace_(trace) {
  number_groups();
  if (trace_.clocks.size() > 1) {
    std::size_t largest = 0;
    for (std::size_t i = 1; i < groups_.size(); ++i) {
      if (groups_[i].size > groups_[largest].size) largest = i;
    }
    align_clocks(trace_, [&](const TracedRank& rank, const recorder::TracedCall& call) {
      const auto& numbers = numbers_[static_cast<std::size_t>(&rank - trace_.ranks.data())];
      const auto group = numbers.find(call.group);
      return group != numbers.end() && group->second == largest;
    });
    set_origin(trace_);
  }
  meetings_.resize(groups_.size());
  for (std::size_t rank = 0; rank < trace_.ranks.size(); ++rank) meet(rank);
}

// All ranks of a group make it in the same order among those of its name.
void Merge::number_groups() {
  groups_.push_back({.name = "", .size = 0});
  std::map<std::tuple<std::string, std::uint32_t, int, int>, std::size_t> known;
  for (const TracedRank& rank : trace_.ranks) {
    std::map<std::tuple<std::string, std::uint32_t, int>, int> times;
    auto& numbers = numbers_.emplace_back();
    for (const recorder::GroupSeen& group : rank.reader->groups()) {
      const int time = times[{group.name, group.name_hash, group.size}]++;
      const auto [found, is_new] = known.try_emplace({group.name, group.name_hash, group.size, time}, groups_.size());
      if (is_new) groups_.push_back({.name = group.name + (time == 0 ? "" : " (" + std::to_string(time + 1) + ")"), .size = group.size});
      numbers[group.number] = found->second;
    }
  }
}

// Where calls were lost, the first one that is left is not the first of its group; the library's own number still is the same on all ranks, unless
// they have also sent messages in that group.
std::uint64_t Merge::meeting_number(const recorder::TracedCall& call, std::uint64_t number) const {
  return trace_.lost == 0 ? number : call.sequence;
}

void Merge::meet(std::size_t rank) {
  const TracedRank& own = trace_.ranks[rank];
  const CallOrder order(*own.reader);
  own.reader->each([&](const recorder::TracedCall& call) {
    const auto number = order.number(call);
    const auto group = numbers_[rank].find(call.group);
    if (!number || group == numbers_[rank].end()) return;
    const std::uint64_t begin = trace_.time_of(own, call.begun);
    if (is_message(static_cast<Operation>(call.operation))) {
      if (static_cast<Operation>(call.operation) != Operation::send || trace_.lost != 0) return;
      auto& sent = sends_[{group->second, own.about.rank, call.peer}];
      if (sent.size() <= *number) sent.resize(*number + 1);
      sent[*number] = begin;
      return;
    }
    Meeting& meeting = meetings_[group->second][meeting_number(call, *number)];
    ++meeting.arrived;
    meeting.first = std::min(meeting.first, begin);
    if (call.peer == own.about.rank) meeting.root = begin;
    if (meeting.last_rank >= 0 && begin <= meeting.last) return;
    meeting.last = begin;
    meeting.last_rank = own.about.rank;
    meeting.last_blocks = call.of_owner && call.queued == 0;
  });
}

// A call that never ended, or that has failed, tells itself whom it waited for: not all have come. So does one that needs the ranks before its own.
void Merge::find_wait(Slice& slice, std::uint64_t number) const {
  const recorder::TracedCall& call = *slice.call;
  const auto& meetings = meetings_[slice.group];
  const auto found = meetings.find(meeting_number(call, number));
  const int rank = trace_.ranks[slice.rank].about.rank;
  if (found == meetings.end()) return;
  const Meeting& meeting = found->second;
  const bool is_complete = static_cast<int>(meeting.arrived) >= groups_[slice.group].size;
  const bool is_chained = is_prefix(static_cast<Operation>(call.operation));
  if (is_chained && call.waited_for < 0) return;
  if (is_chained || (!is_complete && call.state != recorder::CallState::done)) {
    slice.waited = slice.end - slice.begin;
    slice.waited_for = call.waited_for;
    return;
  }
  const Needs needs = needs_of(call, rank);
  const std::uint64_t came = needs == Needs::all ? meeting.last : needs == Needs::root ? meeting.root : 0;
  if (came <= slice.begin) return;
  slice.waited = std::min(came, slice.end) - slice.begin;
  slice.waited_for = needs == Needs::all ? meeting.last_rank : call.peer;
  slice.late_one_blocks = needs == Needs::all && meeting.last_blocks;
}

void Merge::find_sender(Slice& slice, std::uint64_t number) const {
  const recorder::TracedCall& call = *slice.call;
  const auto sent = sends_.find({slice.group, call.peer, trace_.ranks[slice.rank].about.rank});
  if (sent == sends_.end() || number >= sent->second.size()) return;
  const std::uint64_t came = sent->second[number];
  if (came <= slice.begin || came > slice.end) return;  // their tags say another order
  slice.waited = came - slice.begin;
  slice.waited_for = call.peer;
}

Slice Merge::slice_of(std::size_t rank, const recorder::TracedCall& call, const CallOrder& order) const {
  const TracedRank& own = trace_.ranks[rank];
  Slice slice{.rank = rank, .begin = trace_.time_of(own, call.begun), .is_over = call.is_over(), .call = &call};
  slice.end = std::max(slice.begin, call.done == 0 ? own.to : trace_.time_of(own, call.done));
  if (is_program_wait(*own.reader, call)) {
    slice.row = call.of_owner ? Slice::Row::program_wait : Slice::Row::beside;
    return slice;
  }
  slice.row = call.of_owner && call.queued == 0 ? Slice::Row::program : Slice::Row::beside;
  const auto group = numbers_[rank].find(call.group);
  if (group != numbers_[rank].end()) slice.group = group->second;
  const auto number = order.number(call);
  const bool is_sent = static_cast<Operation>(call.operation) == Operation::send;
  if (number && slice.group != 0) {
    if (is_collective(*own.reader, call)) find_wait(slice, *number);
    else if (!is_sent) find_sender(slice, *number);
  } else if (call.waited_for >= 0) {
    slice.waited = slice.end - slice.begin;
    slice.waited_for = call.waited_for;
  }
  return slice;
}

Merge::Waits Merge::waits_beside(std::size_t rank, const CallOrder& order) const {
  Waits waits;
  trace_.ranks[rank].reader->each([&](const recorder::TracedCall& call) {
    if (call.queued == 0) return;
    const Slice slice = slice_of(rank, call, order);
    if (slice.waited > 0) waits.emplace_back(slice.begin, slice.begin + slice.waited);
  });
  std::ranges::sort(waits);
  // Those that overlap become one, so that their ends are sorted as well.
  Waits joined;
  for (const auto& [begin, end] : waits) {
    if (!joined.empty() && begin <= joined.back().second) joined.back().second = std::max(joined.back().second, end);
    else joined.emplace_back(begin, end);
  }
  return joined;
}

void Merge::each_of(std::size_t rank, const std::function<void(const Slice&)>& visit) const {
  const CallOrder order(*trace_.ranks[rank].reader);
  const Waits waits = waits_beside(rank, order);
  trace_.ranks[rank].reader->each([&](const recorder::TracedCall& call) {
    Slice slice = slice_of(rank, call, order);
    if (slice.row == Slice::Row::program_wait) slice.waited = overlap(waits, slice.begin, slice.end);
    visit(slice);
  });
}

void Merge::each(const std::function<void(const Slice&)>& visit) const {
  for (std::size_t rank = 0; rank < trace_.ranks.size(); ++rank) each_of(rank, visit);
}

void Merge::each_step(const std::function<void(const Meeting&)>& visit) const {
  std::size_t largest = 0;
  for (std::size_t i = 1; i < groups_.size(); ++i) {
    if (groups_[i].size > groups_[largest].size) largest = i;
  }
  for (const auto& [number, meeting] : meetings_[largest]) {
    if (static_cast<int>(meeting.arrived) >= groups_[largest].size && groups_[largest].size > 1) visit(meeting);
  }
}

}  // namespace unisono::tools
