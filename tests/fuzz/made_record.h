#pragma once

#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <string_view>

#include "input.h"
#include "recorder/layout.h"

// A rank's record as a file has it, made out of an input: its sizes fit each other, so that what is in it gets read, and all else may be anything.
namespace unisono::fuzz {

/// Returns a time: near to others most often, as a rank's times are, and anything now and then.
inline std::uint64_t time_of(Input& in) {
  return in.choice(7) == 0 ? in.number<std::uint64_t>() : 1'000'000'000 + std::uint64_t{in.number<std::uint16_t>()} * 1000;
}

inline void fill(recorder::CallEntry& entry, Input& in) {
  entry.turn.store(in.choice(15) == 0 ? in.number<std::uint32_t>() : 2);
  entry.group.store(static_cast<std::uint16_t>(in.choice(3)));
  const auto place_and_count = in.number<std::uint16_t>();
  entry.place.store(static_cast<std::uint8_t>(place_and_count));
  entry.count.store(static_cast<std::uint8_t>(place_and_count >> 8));
  entry.operation.store(in.choice(3) == 0 ? in.number<std::uint8_t>() : static_cast<std::uint8_t>(1 + in.choice(12)));
  entry.label.store(static_cast<std::uint8_t>(in.choice(3)));
  entry.dtype.store(in.number<std::uint8_t>());
  entry.state.store(in.number<std::uint8_t>() % 8);
  entry.peer.store(in.choice(7) == 0 ? in.number<std::int32_t>() : static_cast<std::int32_t>(in.choice(2)) - 1);
  entry.sequence.store(in.choice(7) == 0 ? in.number<std::uint64_t>() : in.choice(7));
  entry.bytes.store(in.number<std::uint16_t>());
  entry.queued.store(in.flag() ? time_of(in) : 0);
  entry.begun.store(in.choice(7) == 0 ? 0 : time_of(in));
  entry.done.store(in.choice(7) == 0 ? 0 : time_of(in));
  entry.count_or_tag.store(in.number<std::uint32_t>());
  entry.waited_for.store(in.choice(7) == 0 ? in.number<std::int32_t>() : static_cast<std::int32_t>(in.choice(2)) - 1);
}

/// Returns the bytes of such a file, for a rank of two.
inline std::string made_record(Input& in, int rank, bool is_trace) {
  const auto calls = static_cast<std::uint32_t>(1 + in.choice(5)), others = static_cast<std::uint32_t>(1 + in.choice(2));
  const std::uint32_t more_groups = is_trace ? 4 : 0;
  const std::size_t bytes = recorder::record_bytes(calls, others, more_groups);
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  const std::unique_ptr<void, Free> memory(std::aligned_alloc(64, (bytes + 63) / 64 * 64));
  std::memset(memory.get(), 0, bytes);
  auto& header = *static_cast<recorder::RecordHeader*>(memory.get());  // all-zero is its initial state
  header.magic.store(recorder::record_magic);
  header.rings.calls.store(calls);
  header.rings.others.store(others);
  header.rings.most_calls = calls;
  header.rings.most_others = others;
  header.rings.more_groups = more_groups;
  header.in_job.rank.store(rank);
  header.in_job.size.store(2);
  header.in_job.node.store(in.choice(3) == 0 ? rank : 0);
  header.state.store(static_cast<std::uint32_t>(in.choice(5)));
  header.uses_counter.store(in.choice(3) == 0 ? 1 : 0);
  for (auto* const clock : {&header.clocks.first, &header.clocks.last}) {
    clock->ticks.store(time_of(in));
    clock->steady.store(time_of(in));
  }
  header.clocks.real_at_first.store(time_of(in));
  header.host.set(in.flag() ? "a" : in.text(64));
  header.job.set("made");
  header.program.set(in.text(40));
  header.next.store(in.choice(7) == 0 ? in.number<std::uint64_t>() : in.choice(15));
  header.next_of_others.store(in.choice(7) == 0 ? in.number<std::uint64_t>() : in.choice(3));
  header.program_waits_since.store(in.choice(3) == 0 ? in.number<std::uint64_t>() : 0);
  for (std::size_t i = 0; i < 3; ++i) {
    header.counted.groups[i].set(in.text(4));
    header.counted.keys[i].store(in.number<std::uint32_t>());
    header.counts.own[i].calls.store(in.choice(3));
    header.counts.shared[i].waited_ticks.store(in.flag() ? in.number<std::uint64_t>() : 0);
  }
  for (std::size_t i = 1; i < 4; ++i) {
    header.groups[i].set(static_cast<std::uint16_t>(i), 2, "world");
    if (is_trace)
      recorder::more_groups_of(&header)[i].set(static_cast<std::uint16_t>(i), static_cast<int>(in.choice(3)), i == 1 ? "world" : in.text(8),
                                               static_cast<int>(i - 1), 1 - rank);
    header.texts.labels[i].set(i == 1 ? "wait" : in.text(8));
    header.texts.places[i].set(in.text(8));
  }
  for (std::uint32_t i = 0; i < calls + others; ++i) fill(recorder::entries_of(&header)[i], in);
  std::string file(static_cast<const char*>(memory.get()), bytes);
  for (std::size_t changes = in.choice(15); changes > 12; --changes) file[in.number<std::uint16_t>() % file.size()] ^= in.number<char>();
  if (in.choice(31) == 0) file.resize(in.number<std::uint16_t>() % file.size());
  return file;
}

}  // namespace unisono::fuzz
