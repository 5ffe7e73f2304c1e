#include "machine.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace unisono::schedule::testing {
namespace {

std::size_t width_of(const Case& of) {
  std::size_t most = 0;
  for (int r = 0; r < of.size; ++r) most = std::max(most, of.problem(r).in.count);
  return most;
}

/// Returns a slice for a complaint.
std::string to_text(const Slice& slice) {
  constexpr const char* names[] = {"input", "output", "scratch"};
  return fmt::format("{}[{}, {})", names[static_cast<int>(slice.memory)], slice.begin, slice.begin + slice.count);
}

}  // namespace

Machine::Machine(const Case& of, const std::vector<Schedule>& schedules)
    : case_(of),
      schedules_(schedules),
      topologies_(of.topologies()),
      symbols_(of.size, width_of(of)),
      channels_(static_cast<std::size_t>(2 * of.size * of.size)) {
  for (int r = 0; r < of.size; ++r) {
    Rank rank;
    rank.problem = of.problem(r);
    const std::size_t scratch = schedules_[static_cast<std::size_t>(r)].scratch;
    const Case::Places at = of.places(rank.problem);
    rank.memory.assign(at.end + scratch, 0);
    rank.base[0] = at.input;
    rank.base[1] = at.output;
    rank.base[2] = at.end;
    rank.length[0] = rank.problem.in.count;
    rank.length[1] = rank.problem.out.count;
    rank.length[2] = scratch;
    for (std::size_t i = 0; i < rank.problem.in.count; ++i) rank.memory[at.input + i] = symbols_.input(r, i);
    rank.work.scratch = static_cast<double>(scratch);
    ranks_.push_back(std::move(rank));
    ready_.push_back(r);
  }
}

void Machine::complain(int r, const std::string& what) {
  if (!complaint_.empty()) return;
  const Rank& rank = ranks_[static_cast<std::size_t>(r)];
  const auto& steps = schedules_[static_cast<std::size_t>(r)].steps;
  complaint_ = fmt::format("rank {}, wave {}: {}", r, rank.next < steps.size() ? steps[rank.next].wave : 0, what);
}

std::string Machine::run() {
  while (!ready_.empty() && complaint_.empty()) {
    const int r = ready_.back();
    ready_.pop_back();
    begin_wave(r);
  }
  for (int r = 0; r < case_.size && complaint_.empty(); ++r) {
    const Rank& rank = ranks_[static_cast<std::size_t>(r)];
    if (rank.next == schedules_[static_cast<std::size_t>(r)].steps.size()) continue;
    complain(r, rank.is_in_collective ? "waits for ever for the ranks of its host" : fmt::format("waits for ever for {} messages", rank.waits));
  }
  return complaint_;
}

void Machine::begin_wave(int r) {
  Rank& rank = ranks_[static_cast<std::size_t>(r)];
  const std::vector<Step>& steps = schedules_[static_cast<std::size_t>(r)].steps;
  if (rank.next == steps.size()) return;
  rank.end = rank.next;
  while (rank.end < steps.size() && steps[rank.end].wave == steps[rank.next].wave) ++rank.end;
  check_wave(r);
  rank.latest_round = rank.round;
  rank.latest_path = rank.path;
  rank.wave_sent = rank.wave_received = 0;
  if (steps[rank.next].kind == Step::Kind::engine) return collective(r, steps[rank.next]);
  std::size_t messages = 0;
  for (std::size_t i = rank.next; i < rank.end && complaint_.empty(); ++i) {
    if (steps[i].is_local()) carry_out(r, steps[i]);
    else ++messages;
  }
  rank.waits = messages;
  rank.has_messages = messages > 0;
  if (messages == 0) return end_wave(r);
  for (std::size_t i = rank.next, end = rank.end; i < end && complaint_.empty(); ++i) {
    if (!steps[i].is_local()) post(r, steps[i]);
  }
}

void Machine::end_wave(int r) {
  Rank& rank = ranks_[static_cast<std::size_t>(r)];
  rank.round = rank.latest_round + (rank.has_messages ? 1 : 0);
  rank.path = rank.latest_path + static_cast<double>(std::max(rank.wave_sent, rank.wave_received));
  rank.next = rank.end;
  ready_.push_back(r);
}

int Machine::peer_of(int r, const Step& step) const {
  if (step.level == Level::group) return step.peer >= 0 && step.peer < case_.size ? step.peer : -1;
  const auto& topology = topologies_[static_cast<std::size_t>(r)];
  const std::vector<int>& names = step.level == Level::rail ? topology.rail : topology.members;
  return step.peer >= 0 && static_cast<std::size_t>(step.peer) < names.size() ? names[static_cast<std::size_t>(step.peer)] : -1;
}

void Machine::post(int r, const Step& step) {
  const int peer = peer_of(r, step);
  if (peer < 0 || peer == r || step.kind == Step::Kind::engine)
    return complain(r, fmt::format("has no rank {} to send to or receive from", step.peer));
  const bool is_send = step.kind == Step::Kind::send;
  const auto sender = static_cast<std::size_t>(is_send ? r : peer), receiver = static_cast<std::size_t>(is_send ? peer : r);
  const auto n = static_cast<std::size_t>(case_.size);
  Channel& channel = channels_[((step.level == Level::rail ? n : 0) + sender) * n + receiver];
  Rank& rank = ranks_[static_cast<std::size_t>(r)];
  if (is_send) {
    channel.sends.push_back({r, step.in});
    rank.work.sent += static_cast<double>(step.in.count);
    rank.wave_sent += step.in.count;
    ++rank.sends;
  } else {
    channel.receives.push_back({r, step.out});
    rank.wave_received += step.out.count;
    ++rank.receives;
  }
  match(channel);
}

void Machine::match(Channel& channel) {
  if (channel.first_send == channel.sends.size() || channel.first_receive == channel.receives.size()) return;
  const Message send = channel.sends[channel.first_send++], receive = channel.receives[channel.first_receive++];
  Rank& from = ranks_[static_cast<std::size_t>(send.rank)];
  Rank& to = ranks_[static_cast<std::size_t>(receive.rank)];
  if (send.slice.count != receive.slice.count) {
    return complain(receive.rank, fmt::format("receives {} elements from rank {}, which sends {}", receive.slice.count, send.rank, send.slice.count));
  }
  const std::size_t source = address(from, send.slice), target = address(to, receive.slice);
  for (std::size_t i = 0; i < send.slice.count; ++i) {
    if (from.memory[source + i] == 0) return complain(send.rank, "sends " + to_text(send.slice) + ", which nothing has been written to");
    to.memory[target + i] = from.memory[source + i];
  }
  to.latest_round = std::max(to.latest_round, from.round);
  to.latest_path = std::max(to.latest_path, from.path);
  for (const int r : {send.rank, receive.rank}) {
    if (--ranks_[static_cast<std::size_t>(r)].waits == 0) end_wave(r);
  }
}

void Machine::check_wave(int r) {
  const Rank& rank = ranks_[static_cast<std::size_t>(r)];
  const auto& steps = schedules_[static_cast<std::size_t>(r)].steps;
  struct Use {
    std::size_t begin, end, step;
    bool writes;
  };
  std::vector<Use> uses;
  const auto use = [&](const Slice& slice, std::size_t step, bool writes) {
    if (slice.begin + slice.count > rank.length[static_cast<int>(slice.memory)]) {
      return complain(r, to_text(slice) + fmt::format(" goes beyond the {} elements there", rank.length[static_cast<int>(slice.memory)]));
    }
    if (writes && slice.count > 0 && slice.memory == Slice::Memory::input) return complain(r, "writes to the input");
    const std::size_t begin = address(rank, slice);
    if (slice.count > 0) uses.push_back({begin, begin + slice.count, step, writes});
  };
  for (std::size_t i = rank.next; i < rank.end; ++i) {
    const Step& step = steps[i];
    if (step.kind == Step::Kind::copy && step.in.count == step.out.count && address(rank, step.in) == address(rank, step.out))
      continue;  // copies nothing
    const bool gives_all = step.kind == Step::Kind::reduce;
    if (gives_all && step.blocks * step.out.count > step.in.count) complain(r, "reduces more blocks than there are in " + to_text(step.in));
    if (step.kind != Step::Kind::receive && step.kind != Step::Kind::divide) use(step.in, i, false);
    if (step.kind == Step::Kind::combine) use(step.with, i, false);
    if (step.kind == Step::Kind::divide) use(step.out, i, false);
    if (step.kind != Step::Kind::send) use(step.out, i, true);
  }
  std::ranges::sort(uses, {}, &Use::begin);
  for (std::size_t i = 0; i < uses.size(); ++i) {
    for (std::size_t j = i + 1; j < uses.size() && uses[j].begin < uses[i].end; ++j) {
      if (!uses[i].writes && !uses[j].writes) continue;
      const bool is_same_place = uses[i].begin == uses[j].begin && uses[i].end == uses[j].end;
      if (uses[i].step != uses[j].step) complain(r, "one step writes what another one of the same wave uses");
      else if (!is_same_place && steps[uses[i].step].kind != Step::Kind::engine) complain(r, "a step writes to a part of what it reads");
    }
  }
}

}  // namespace unisono::schedule::testing
