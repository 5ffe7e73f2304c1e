// A copy of a record in a file, which may be damaged.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "recorder/reader.h"

namespace unisono::recorder {
namespace {

/// Returns a record with a call of the owner.
std::shared_ptr<void> record_of_a_call() {
  const std::size_t bytes = record_bytes(1, 1);
  std::shared_ptr<void> memory(std::aligned_alloc(alignof(RecordHeader), (bytes + 63) / 64 * 64), [](void* each) { std::free(each); });
  std::memset(memory.get(), 0, bytes);
  auto& header = *static_cast<RecordHeader*>(memory.get());
  header.magic.store(record_magic);
  header.rings.calls.store(1);
  header.rings.others.store(1);
  header.rings.most_calls = header.rings.most_others = 1;
  header.uses_counter.store(1);
  header.next.store(1);
  CallEntry& entry = *entries_of(&header);
  entry.turn.store(2);
  entry.state.store(static_cast<std::uint8_t>(CallState::done));
  entry.begun.store(5);
  entry.done.store(std::uint64_t{1} << 62);
  return memory;
}

TEST(RecordCopy, AClockThatNoProcessorHas) {
  const auto memory = record_of_a_call();
  auto& header = *static_cast<RecordHeader*>(memory.get());
  // The second moment, of the first clock and the second one: it stands still, runs backwards, or faster than any.
  for (const auto& [ticks, steady] :
       {std::pair{std::uint64_t{10}, std::uint64_t{1000}}, {11, 0}, {11, ~std::uint64_t{0}}, {~std::uint64_t{0}, 1000}}) {
    header.clocks.first.ticks.store(10);
    header.clocks.first.steady.store(1000);
    header.clocks.last.ticks.store(ticks);
    header.clocks.last.steady.store(steady);
    header.counts.own[0].calls.store(1);
    header.counts.shared[0].waited_ticks.store(~std::uint64_t{0} >> 1);
    const RankSeen seen = RecordReader(memory, RecordReader::Kind::copy).read();
    ASSERT_EQ(seen.recent.size(), 1U);
    EXPECT_LE(seen.recent[0].done, 9'200'000'000'000'000'000U) << ticks << " " << steady;
  }
}

}  // namespace
}  // namespace unisono::recorder
