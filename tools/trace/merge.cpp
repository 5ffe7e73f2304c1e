#include "trace/merge.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <tuple>
#include <utility>

#include "recorder/recorder.h"
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

bool is_known(const recorder::TracedCall& call) { return call.operation >= 1 && call.operation <= operation_table.size(); }
bool is_probe(const recorder::TraceReader& reader, const recorder::TracedCall& call) { return reader.label(call.label) == "probe"; }

}  // namespace

Merge::Merge(JobTrace& trace) : trace_(trace) {
  number_groups();
  find_largest();
  if (trace_.clocks.size() > 1) {
    align_clocks(trace_, groups_, [&](const TracedRank& rank, const recorder::TracedCall& call, std::uint64_t number) {
      const auto place = place_of(static_cast<std::size_t>(&rank - trace_.ranks.data()), call, number);
      return place && groups_[place->group].is_largest ? place : std::nullopt;
    });
    set_origin(trace_);
  }
  meetings_.resize(groups_.size());
  for (std::size_t rank = 0; rank < trace_.ranks.size(); ++rank) meet(rank);
}

// All ranks of a group make it in the same order among those of its name. A process that came later has made none of those before its generation.
void Merge::number_groups() {
  using Kind = std::tuple<std::string, std::uint32_t, int, int>;
  groups_.push_back({.name = "", .size = 0});
  std::map<std::pair<Kind, int>, std::size_t> known;
  for (const TracedRank& rank : trace_.ranks) {
    const bool has_lost = rank.reader->lost() != 0;
    std::map<Kind, int> times;
    auto& numbers = numbers_.emplace_back();
    for (const recorder::GroupSeen& seen : rank.groups) {
      const Kind kind{seen.name, seen.name_hash, seen.size, seen.generation};
      const int time = times[kind]++;
      const auto [found, is_new] = known.try_emplace({kind, time}, groups_.size());
      if (is_new) {
        const std::string generation = seen.generation > 1 ? " of generation " + std::to_string(seen.generation) : "";
        groups_.push_back({.name = seen.name + generation + (time == 0 ? "" : " (" + std::to_string(time + 1) + ")"),
                           .size = seen.size,
                           .generation = seen.generation});
      }
      numbers[seen.number] = {.group = found->second, .rank = rank.rank_in(seen.generation)};
      TracedGroup& group = groups_[found->second];
      ++group.traced;
      group.has_lost = group.has_lost || has_lost;
      group.has_messages = group.has_messages || rank.reader->may_have_messages(seen.name);
    }
  }
}

void Merge::find_largest() {
  std::map<int, std::size_t> largest;  // by generation
  for (std::size_t i = 1; i < groups_.size(); ++i) {
    std::size_t& found = largest.try_emplace(groups_[i].generation, i).first->second;
    if (groups_[i].size > groups_[found].size) found = i;
  }
  for (const auto& [generation, group] : largest) groups_[group].is_largest = true;
}

// Where calls were lost, the first one that is left is not the first of its group; the library's own number still is the same on all ranks.
std::optional<MeetingPlace> Merge::place_of(std::size_t rank, const recorder::TracedCall& call, std::uint64_t number) const {
  const auto found = numbers_[rank].find(call.group);
  if (found == numbers_[rank].end()) return std::nullopt;
  const TracedGroup& group = groups_[found->second.group];
  if (!group.is_matched()) return std::nullopt;
  return MeetingPlace{.group = found->second.group, .number = group.has_lost ? call.sequence : number};
}

bool Merge::has_unmatched() const {
  return std::ranges::any_of(groups_, [](const TracedGroup& group) { return !group.is_matched(); });
}

void Merge::meet(std::size_t rank) {
  const TracedRank& own = trace_.ranks[rank];
  const CallOrder order(*own.reader);
  own.reader->each([&](const recorder::TracedCall& call) {
    const auto number = order.number(call);
    const auto place = number ? place_of(rank, call, *number) : std::nullopt;
    if (!place) return;
    const TracedGroup& group = groups_[place->group];
    const int own_rank = numbers_[rank].at(call.group).rank;
    const std::uint64_t begin = trace_.time_of(own, call.begun);
    if (is_message(static_cast<Operation>(call.operation))) {
      if (static_cast<Operation>(call.operation) != Operation::send || group.has_lost) return;
      auto& sent = sends_[{place->group, own_rank, call.peer}];
      if (sent.size() <= *number) sent.resize(*number + 1);
      sent[*number] = begin;
      return;
    }
    Meeting& meeting = meetings_[place->group][place->number];
    ++meeting.arrived;
    meeting.first = std::min(meeting.first, begin);
    if (call.peer == own_rank) meeting.root = begin;
    if (meeting.last_rank >= 0 && begin <= meeting.last) return;
    meeting.last = begin;
    meeting.last_rank = own.number;
    meeting.last_blocks = call.of_owner && call.queued == 0;
  });
}

// A call that never ended, or that has failed, tells itself whom it waited for: not all have come. So does one that needs the ranks before its own.
void Merge::find_wait(Slice& slice, std::uint64_t number) const {
  const recorder::TracedCall& call = *slice.call;
  const TracedGroup& group = groups_[slice.group];
  const auto place = place_of(slice.rank, call, number);
  const auto found = place ? meetings_[slice.group].find(place->number) : meetings_[slice.group].end();
  const bool is_found = found != meetings_[slice.group].end();
  const bool is_complete = is_found && static_cast<int>(found->second.arrived) >= group.size;
  const Participants senders = traits_of(static_cast<Operation>(call.operation)).senders;
  const bool is_chained = senders != Participants::all_ranks && senders != Participants::root;
  if (is_chained && call.waited_for < 0) return;
  if (is_chained || (!is_complete && call.state != recorder::CallState::done)) {
    slice.waited = slice.end - slice.begin;
    slice.waited_for = trace_.number_of(group.generation, call.waited_for);
    return;
  }
  if (!is_found) return;
  const Meeting& meeting = found->second;
  const Needs needs = needs_of(call, numbers_[slice.rank].at(call.group).rank);
  const std::uint64_t came = needs == Needs::all ? meeting.last : needs == Needs::root ? meeting.root : 0;
  if (came <= slice.begin) return;
  slice.waited = std::min(came, slice.end) - slice.begin;
  slice.waited_for = needs == Needs::all ? meeting.last_rank : trace_.number_of(group.generation, call.peer);
  slice.late_one_blocks = needs == Needs::all && meeting.last_blocks;
}

void Merge::find_sender(Slice& slice, std::uint64_t number) const {
  const recorder::TracedCall& call = *slice.call;
  const int generation = groups_[slice.group].generation;
  const auto sent = sends_.find({slice.group, call.peer, numbers_[slice.rank].at(call.group).rank});
  if (sent == sends_.end() || number >= sent->second.size()) return;
  const std::uint64_t came = sent->second[number];
  if (came <= slice.begin || came > slice.end) return;  // their tags say another order
  slice.waited = came - slice.begin;
  slice.waited_for = trace_.number_of(generation, call.peer);
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
  if (group != numbers_[rank].end()) slice.group = group->second.group;
  const auto number = order.number(call);
  const bool is_sent = static_cast<Operation>(call.operation) == Operation::send;
  if (number && slice.group != 0) {
    if (is_collective(*own.reader, call)) find_wait(slice, *number);
    else if (!is_sent) find_sender(slice, *number);
  } else if (call.waited_for >= 0) {
    slice.waited = slice.end - slice.begin;
    slice.waited_for = trace_.number_of(own.generation_of(call.group), call.waited_for);
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
  std::uint64_t begin = 0, end = 0;  // of the program's last call that others do not lie in
  trace_.ranks[rank].reader->each([&](const recorder::TracedCall& call) {
    Slice slice = slice_of(rank, call, order);
    const bool lies_within = slice.begin >= begin && slice.end <= end;
    if (slice.row == Slice::Row::program_wait) {
      if (lies_within) return;  // the call itself tells for whom it waits
      slice.waited = overlap(waits, slice.begin, slice.end);
    }
    if (slice.row != Slice::Row::beside && !lies_within) std::tie(begin, end) = std::pair(slice.begin, slice.end);
    visit(slice);
  });
}

void Merge::each(const std::function<void(const Slice&)>& visit) const {
  for (std::size_t rank = 0; rank < trace_.ranks.size(); ++rank) each_of(rank, visit);
}

void Merge::each_step(const std::function<void(const Meeting&)>& visit) const {
  for (std::size_t i = 1; i < groups_.size(); ++i) {
    if (!groups_[i].is_largest || groups_[i].size < 2) continue;
    for (const auto& [number, meeting] : meetings_[i]) {
      if (static_cast<int>(meeting.arrived) >= groups_[i].size) visit(meeting);
    }
  }
}

bool is_program_wait(const recorder::TraceReader& reader, const recorder::TracedCall& call) {
  return call.group == 0 && reader.label(call.label) == recorder::wait_label;
}

bool is_collective(const recorder::TraceReader& reader, const recorder::TracedCall& call) {
  return is_known(call) && !is_message(static_cast<Operation>(call.operation)) && !is_program_wait(reader, call);
}

CallOrder::CallOrder(const recorder::TraceReader& reader) : reader_(reader) {
  reader_.each([&](const recorder::TracedCall& call) {
    if (const auto where = key(call)) sequences_[*where].push_back(call.sequence);
  });
  for (auto& [where, sequences] : sequences_) std::ranges::sort(sequences);
}

std::optional<std::uint64_t> CallOrder::number(const recorder::TracedCall& call) const {
  const auto where = key(call);
  const auto found = where ? sequences_.find(*where) : sequences_.end();
  if (found == sequences_.end()) return std::nullopt;
  return static_cast<std::uint64_t>(std::ranges::lower_bound(found->second, call.sequence) - found->second.begin());
}

std::optional<std::uint64_t> CallOrder::key(const recorder::TracedCall& call) const {
  constexpr unsigned group_bit = 40, kind_bit = 36;
  const std::uint64_t group = std::uint64_t{call.group} << group_bit;
  if (is_collective(reader_, call)) return group;
  if (!is_known(call) || is_program_wait(reader_, call) || is_probe(reader_, call) || call.peer < 0) return std::nullopt;
  const bool sends = static_cast<Operation>(call.operation) == Operation::send;
  return group | (std::uint64_t{sends ? 1U : 2U} << kind_bit) | static_cast<std::uint32_t>(call.peer);
}

}  // namespace unisono::tools
