// Private buffers that other ranks read where they lie: when, and what happens where that is impossible.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/deadline.h"
#include "engines/shm/engine.h"
#include "engines/shm/direct_access.h"
#include "engines/shm/pieces.h"
#include "unit/base/refused_call.h"
#include "two_engines.h"
#include "unisono/failure.h"

using namespace unisono;
using engines::shm::DirectAccess;
using engines::shm::PrivateMemory;
using engines::shm::single_copy_pays;
using engines::shm::single_copy_range;
using engines::shm::SingleCopyRange;
using two_engines::advance_both;
using two_engines::call_of;
using two_engines::ended_process;
using two_engines::n;
using two_engines::step;
using two_engines::TwoEngines;
using two_engines::TwoRanks;

namespace {

base::Environment environment(const std::string& value) {
  if (value.empty()) return {};
  return base::Environment(std::map<std::string, std::string, std::less<>>{{"UNISONO_SINGLE_COPY", value}});
}

constexpr SingleCopyRange rule{32, 8192};
constexpr std::size_t kib = 1024;

CollectiveCall bytes_of(Operation operation, std::size_t bytes) {
  CollectiveCall call;
  call.operation = operation;
  call.in = TensorView(static_cast<float*>(nullptr), DType::float32, std::size_t{0});
  call.count = bytes / sizeof(float);
  return call;
}

/// A call on blocks of different length.
CollectiveCall blocks_of(Operation operation, const std::vector<std::size_t>& bytes) {
  std::vector<std::size_t> counts;
  for (const std::size_t block : bytes) counts.push_back(block / sizeof(float));
  const Counts all(counts);
  CollectiveCall call = bytes_of(operation, operation == Operation::all_to_all_v ? 0 : all.total() * sizeof(float));
  call.counts = all;
  return call;
}

}  // namespace

TEST(SingleCopy, SingleCopyIsUsedOnceAllCanRead) {
  TwoRanks world;
  std::array ranks{DirectAccess(*world.segment, 0, true), DirectAccess(*world.segment, 1, true)};
  std::vector<float> x(n), y(2 * n);
  const CollectiveCall scatter = call_of(Operation::scatter, y, x, n);
  EXPECT_FALSE(ranks[0].begins(scatter));
  world.call(ranks, scatter, scatter);  // they try
  for (auto& rank : ranks) EXPECT_FALSE(rank.begins(scatter));
  world.call(ranks, scatter, scatter);  // they tell
  for (auto& rank : ranks) EXPECT_TRUE(rank.begins(scatter));
  for (auto& rank : ranks) EXPECT_TRUE(rank.agreed(step, scatter));
  EXPECT_EQ(ranks[0].in(1, step).mapped, nullptr);
  EXPECT_EQ(ranks[0].in(1, step).address, reinterpret_cast<std::uintptr_t>(y.data()));
  EXPECT_EQ(ranks[1].out(0, step).address, reinterpret_cast<std::uintptr_t>(x.data()));
  EXPECT_FALSE(ranks[0].begins(call_of(Operation::all_reduce, x, x, n)));  // not by the rule
}

// Another process has the number, as in another PID namespace, or none has it.
TEST(SingleCopy, SingleCopyIsNotUsedWhereTheWordIsNotFound) {
  const pid_t stranger = ::fork();  // its memory has the same addresses, and not what is written there later
  if (stranger == 0) {
    for (;;) ::pause();
  }
  for (const int pid : {static_cast<int>(stranger), ended_process()}) {
    TwoRanks world;
    std::array ranks{DirectAccess(*world.segment, 0, true), DirectAccess(*world.segment, 1, true)};
    std::vector<float> x(n), y(2 * n);
    const CollectiveCall scatter = call_of(Operation::scatter, y, x, n);
    world.segment->member(1).pid = pid;
    for (int i = 0; i < 3; ++i) world.call(ranks, scatter, scatter);
    for (auto& rank : ranks) EXPECT_FALSE(rank.begins(scatter));
  }
  ::kill(stranger, SIGKILL);
  ::waitpid(stranger, nullptr, 0);
}

TEST(SingleCopy, ARuleSaysForWhichCallsItPays) {
  const auto pays = [](Operation operation, std::size_t bytes, bool is_crowded) {
    return single_copy_pays(bytes_of(operation, bytes), 4, is_crowded, rule);
  };
  EXPECT_FALSE(pays(Operation::all_gather, 31 * kib, false));
  EXPECT_TRUE(pays(Operation::all_gather, 32 * kib, false));
  EXPECT_FALSE(pays(Operation::all_gather, 32 * kib, true));
  EXPECT_TRUE(pays(Operation::all_gather, 2047 * kib, false));
  EXPECT_FALSE(pays(Operation::all_gather, 2048 * kib, false));  // 4 blocks of it are too many
  EXPECT_TRUE(pays(Operation::broadcast, 8191 * kib, false));
  EXPECT_FALSE(pays(Operation::broadcast, 8192 * kib, false));
  EXPECT_TRUE(pays(Operation::scatter, 65536 * kib, true));
  EXPECT_FALSE(pays(Operation::scatter, 31 * kib, false));
  EXPECT_FALSE(pays(Operation::all_reduce, 1024 * kib, false));
  EXPECT_FALSE(pays(Operation::reduce, 1024 * kib, false));
  const SingleCopyRange all{8, 0};
  EXPECT_TRUE(single_copy_pays(bytes_of(Operation::all_reduce, 65536 * kib), 64, true, all));
  EXPECT_FALSE(single_copy_pays(bytes_of(Operation::all_reduce, 7 * kib), 64, true, all));
}

// By the average of the blocks that have any elements.
TEST(SingleCopy, TheSameRuleHoldsForBlocksOfDifferentLength) {
  const auto pays = [](Operation operation, const std::vector<std::size_t>& bytes, bool is_crowded = false) {
    return single_copy_pays(blocks_of(operation, bytes), static_cast<int>(bytes.size()), is_crowded, rule);
  };
  for (const Operation operation : {Operation::all_gather_v, Operation::gather_v, Operation::reduce_scatter_v, Operation::all_to_all_v}) {
    EXPECT_FALSE(pays(operation, {0, 0, 0}));
    EXPECT_FALSE(pays(operation, {8 * kib, 16 * kib, 68 * kib}));
    EXPECT_TRUE(pays(operation, {8 * kib, 16 * kib, 72 * kib}));
    EXPECT_FALSE(pays(operation, {8 * kib, 16 * kib, 72 * kib}, true));
    EXPECT_TRUE(pays(operation, {0, 32 * kib, 0}));
    EXPECT_TRUE(pays(operation, {4 * kib, 8000 * kib, 184 * kib}));
    EXPECT_FALSE(pays(operation, {4 * kib, 8000 * kib, 188 * kib}));
  }
  EXPECT_TRUE(pays(Operation::scatter_v, {kib, 65536 * kib}, true));
  EXPECT_FALSE(pays(Operation::scatter_v, {kib, 62 * kib}, true));
}

TEST(SingleCopy, AVariableReplacesTheRule) {
  const auto unset = single_copy_range(environment(""), rule);
  ASSERT_TRUE(unset);
  EXPECT_EQ(unset->from, rule.from);
  EXPECT_EQ(unset->up_to, rule.up_to);
  EXPECT_EQ(single_copy_range(environment("off"), rule), std::nullopt);
  const auto all = single_copy_range(environment("16"), rule);
  ASSERT_TRUE(all);
  EXPECT_EQ(all->from, 16U);
  EXPECT_EQ(all->up_to, 0U);
  for (const char* wrong : {"on", "-1", "64KiB"})
    EXPECT_THROW(static_cast<void>(single_copy_range(environment(wrong), rule)), InvalidArgument) << wrong;
}

// What is read of each rank lies one piece behind the other, and functions of the user's get it there: elements of every type are aligned.
TEST(SingleCopy, PiecesAreWholePages) {
  for (const std::size_t cache : {256 * kib, 1024 * kib, 1280 * kib, 2048 * kib, 3072 * kib + 64}) {
    for (int ranks = 2; ranks <= 64; ++ranks) {
      const std::size_t piece = engines::shm::piece_that_is_read(cache, ranks);
      EXPECT_EQ(piece % 4096, 0U) << cache << " " << ranks;
      EXPECT_GE(piece, 64 * kib);
      EXPECT_LE(piece, 256 * kib);
    }
  }
}

TEST(SingleCopy, SingleCopyMovesWhatItShould) {
  TwoEngines world;
  world.get_ready();
  std::iota(world.in.begin(), world.in.end(), 0.0F);
  EXPECT_EQ(world.gather_all(), (std::array{true, true}));
  EXPECT_EQ(world.out, world.out2);
  EXPECT_EQ(world.out[n - 1], static_cast<float>(n - 1));
  EXPECT_EQ(world.out[n], 2.0F);
}

// Whoever waits for the task looks for ranks that have ended, and gives its error.
TEST(SingleCopy, ACallStandsStillWhereARankHasEnded) {
  TwoEngines world;
  world.get_ready();
  world.segment->member(1).pid = ended_process();
  EXPECT_EQ(world.gather_all(), (std::array{false, false}));
}

TEST(SingleCopy, MemoryThatIsNotThereIsTheFailureOfItsRank) {
  TwoEngines world;
  world.get_ready();
  void* const gone = ::mmap(nullptr, n * sizeof(float), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(gone, MAP_FAILED);
  CollectiveCall root = call_of(Operation::broadcast, world.in, world.in, n), other = call_of(Operation::broadcast, world.in2, world.in2, n);
  root.in = root.out = TensorView(gone, DType::float32, n);
  const auto a = engines::shm::make_collective(world.first, root);
  const auto b = engines::shm::make_collective(world.second, other);
  EXPECT_FALSE(a->advance());
  try {
    b->advance();
    FAIL() << "nobody noticed";
  } catch (const GroupFailure& over) {
    EXPECT_EQ(over.failure().culprit, 0);
    EXPECT_EQ(over.failure().message, "rank 1: the buffer of rank 0 cannot be read where it was when the call began: Bad address");
  }
  EXPECT_EQ(world.in2, std::vector<float>(n, 2.0F));
  ::munmap(gone, n * sizeof(float));
}

// As a container's filter of system calls does. The filter cannot be taken off again, so a child has it.
TEST(SingleCopy, AFilterOfSystemCallsIsNoticed) {
  const TwoRanks world;
  PrivateMemory first(*world.segment, 0), second(*world.segment, 1);
  first.publish_card();
  second.publish_card();
  EXPECT_TRUE(first.finds_all());
  EXPECT_EQ(unisono::testing::status_where_refused(SYS_process_vm_readv, EPERM, [&] { return !first.finds_all(); }), 0);
}
