#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "recorder/recorder.h"
#include "recorder/trace_file.h"
#include "unit/temporary_file.h"
#include "unisono/operation.h"

namespace unisono::testing {

/// A call of a made trace, in nanoseconds of its host's clock.
struct MadeCall {
  Operation operation = Operation::all_reduce;
  std::uint64_t begun = 0, done = 0;  // done 0: never
  std::uint64_t sequence = 0, bytes = 8;
  std::uint64_t queued = 0;
  int peer = -1, waited_for = -1;
  std::string_view label = {};
  std::string_view group = "world";
  int generation = 1;
  bool has_failed = false;
};

struct MadeRank {
  int rank = 0, size = 2;
  std::string host = "a", job = "made", program = "./train";
  std::uint64_t began = 1'000'000'000, real = 5'000'000'000, now = 0;
  std::vector<MadeCall> calls = {};
  std::vector<MadeCall> of_others = {};
  int node = 0;
  recorder::RankState state = recorder::RankState::left;
  std::map<int, int> ranks = {};  // by generation; elsewhere it is `rank`
  std::string file = {};          // its name without the ending; empty: one that says nothing
};

/// Writes the trace of a rank with calls at the times that a test wants. `room`: how many calls it keeps; 0: all.
inline void make_trace(const std::string& folder, const MadeRank& made, std::uint64_t room = 0) {
  const auto calls = static_cast<long>(room != 0 ? room : made.calls.size() + 1);
  const std::string name = std::to_string(std::hash<std::string>()(made.job)) + "-" + std::to_string(made.rank) + "-" + std::to_string(made.real);
  base::Opened file = recorder::make_trace_file(folder, made.file.empty() ? name : made.file, calls);
  ASSERT_TRUE(file.fd) << folder;
  const auto recorder = recorder::Recorder::make_trace(std::move(file.fd));
  ASSERT_NE(recorder, nullptr);
  recorder->set_identity({.rank = made.rank, .size = made.size, .local_rank = made.rank, .node = made.node, .host = made.host, .job = made.job});
  recorder::RecordHeader& header = recorder->header();
  header.program.set(made.program);
  std::map<std::pair<int, std::string_view>, std::uint16_t> groups;
  const auto add = [&](const MadeCall& call) {
    std::uint16_t group = 0;
    if (!call.group.empty()) {
      const auto [found, is_new] = groups.try_emplace({call.generation, call.group}, std::uint16_t{0});
      const auto own = made.ranks.find(call.generation);
      if (is_new)
        found->second =
            recorder->add_group(call.group, made.size, {.generation = call.generation, .rank = own == made.ranks.end() ? made.rank : own->second});
      group = found->second;
    }
    const auto begun = recorder->begin({.operation = call.operation,
                                        .label = call.label,
                                        .group = group,
                                        .sequence = call.sequence,
                                        .bytes = call.bytes,
                                        .dtype = DType::float32,
                                        .peer = call.peer,
                                        .where = std::source_location::current()});
    begun.entry->queued.store(call.queued);
    begun.entry->begun.store(call.begun);
    begun.entry->done.store(call.done);
    begun.entry->waited_for.store(call.waited_for);
    using enum recorder::CallState;
    begun.entry->state.store(static_cast<std::uint8_t>(call.done == 0 ? waiting : call.has_failed ? failed : done));
  };
  for (const MadeCall& call : made.calls) add(call);
  std::thread([&] {
    for (const MadeCall& call : made.of_others) add(call);
  }).join();
  header.clocks.first.steady.store(made.began);
  header.clocks.first.ticks.store(made.began);
  header.clocks.real_at_first.store(made.real);
  header.state.store(static_cast<std::uint32_t>(made.state));
  std::uint64_t last = std::max(made.now, made.began);
  for (const MadeCall& call : made.calls) last = std::max({last, call.begun, call.done});
  header.clocks.last.steady.store(last);
  header.clocks.last.ticks.store(last);
}

inline constexpr std::uint64_t us = 1000, ms = 1'000'000, began = 1'000'000'000;

/// Two ranks; the second one comes to the second call 5 ms late.
inline void make_late_rank(const std::string& folder) {
  make_trace(folder, {.rank = 0,
                      .calls = {{.begun = began + 1 * ms, .done = began + 3 * ms, .sequence = 1, .bytes = 100},
                                {.begun = began + 4 * ms, .done = began + 11 * ms, .sequence = 2, .bytes = 200}}});
  make_trace(folder, {.rank = 1,
                      .calls = {{.begun = began + 2 * ms, .done = began + 3 * ms, .sequence = 1, .bytes = 100},
                                {.begun = began + 9 * ms, .done = began + 11 * ms, .sequence = 2, .bytes = 200}}});
}

}  // namespace unisono::testing
