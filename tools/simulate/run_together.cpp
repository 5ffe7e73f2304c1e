// The messages of a wave that has many of them: those of the same length on the same way are one flow.
#include <algorithm>
#include <map>
#include <tuple>

#include "simulate/run.h"

namespace unisono::simulate {

std::size_t Run::sends_of_wave(const Rank& rank) const {
  std::size_t sends = 0;
  const auto& all = rank.program->instructions;
  for (std::size_t i = rank.next; i < all.size() && all[i].kind != Instruction::Kind::wait && sends <= few_sends; ++i)
    sends += all[i].kind == Instruction::Kind::send ? 1 : 0;
  return sends;
}

/// Sends the messages of a wave that has many. Those of the same length on the same way become one flow of so many messages.
void Run::send_many(int r) {
  Rank& rank = ranks_[static_cast<std::size_t>(r)];
  std::map<std::tuple<std::array<int, Path::most_links>, int, double>, std::vector<std::pair<Message, double>>> ways;
  const auto& all = rank.program->instructions;
  for (; rank.next < all.size() && all[rank.next].kind == Instruction::Kind::send; ++rank.next) {
    Message message = message_to(r, all[rank.next]);
    const LogGP& level = level_of(message);
    rank.clock = processors_.work(r, rank.clock, (level.overhead_us + message.bytes * level.work_ns_per_byte / ns_in_us) * rank.slowness);
    const double at = std::max(rank.clock, rank.next_message);
    rank.next_message = at + level.gap_us;
    bytes_ += message.bytes;
    if (message.is_awaited) ++rank.pending;
    ways[{message.path.links, message.path.count, message.bytes}].emplace_back(std::move(message), at);
  }
  for (auto& [way, messages] : ways) {
    if (messages.size() <= few_sends) {
      for (auto& [message, at] : messages) launch(std::move(message), at);
      continue;
    }
    auto& [together, at] = messages.front();
    const double us = messages.back().second - at, n = static_cast<double>(messages.size());
    for (std::size_t i = 1; i < messages.size(); ++i) together.others.emplace_back(messages[i].first.receiver, messages[i].first.distance);
    together.weight = n;
    together.begun = at;
    together.bytes *= n;
    together.most = std::min(together.most * n, us > 0 && together.bytes > 0 ? together.bytes / us : together.most * n);
    const double begin = together.bytes > 0 ? at : at + us;
    launch(std::move(together), begin);
  }
}

/// Delivers messages that were sent together, and have arrived one after the other. Their receivers have had the time since to take them.
void Run::arrive_together(const Message& message, double last) {
  const LogGP& level = level_of(message);
  const double n = message.weight, latency = level.latency_us + parameters_.hop_us * (message.path.switches - 1);
  const double each = std::max(last - latency - message.begun, 0.0) / n;
  const double work = level.overhead_us + message.bytes / n * level.work_ns_per_byte / ns_in_us;
  double later = n;
  const auto take = [&](int receiver, std::uint32_t distance) {
    later -= 1;
    Rank& rank = ranks_[static_cast<std::size_t>(receiver)];
    Box& box = boxes_[static_cast<std::uint64_t>(receiver) << 32U | distance];
    const double at = last - later * each;
    if (box.posted == 0) {
      box.arrived.push_back(at);
      return;
    }
    --box.posted;
    rank.taken += work * rank.slowness;
    rank.clock = std::max({rank.clock, rank.taken, at + level.overhead_us * rank.slowness});
    end_part(receiver);
  };
  take(message.receiver, message.distance);
  for (const auto& [receiver, distance] : message.others) take(receiver, distance);
}

}  // namespace unisono::simulate
