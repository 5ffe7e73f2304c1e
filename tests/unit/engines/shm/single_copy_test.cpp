// Private memory of messages that their receivers read where it lies: when, and what happens where that is impossible.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "engines/shm/private_memory.h"
#include "unit/base/refused_call.h"
#include "two_engines.h"

using namespace unisono;
using engines::shm::PrivateCard;
using engines::shm::single_copy_range;
using engines::shm::SingleCopyRange;
using two_engines::ended_process;
using two_engines::TwoRanks;

namespace {

base::Environment environment(const std::string& value) {
  if (value.empty()) return {};
  return base::Environment(std::map<std::string, std::string, std::less<>>{{"UNISONO_SINGLE_COPY", value}});
}

constexpr SingleCopyRange rule{32, 8192};

PrivateCard card_of(const std::uint64_t& word) { return {reinterpret_cast<std::uintptr_t>(&word), word}; }

}  // namespace

TEST(SingleCopy, AWordIsFoundInTheMemoryOfItsRankAlone) {
  const TwoRanks world;
  std::uint64_t word = 0;
  const pid_t stranger = ::fork();  // its memory has the same addresses, and not what is written there later
  if (stranger == 0) {
    for (;;) ::pause();
  }
  word = 0x1234'5678'9abc'def1;
  EXPECT_TRUE(finds(*world.segment, 1, card_of(word))) << "a rank that is a thread of this process";
  world.segment->member(1).pid = ::getpid();
  EXPECT_TRUE(finds(*world.segment, 1, card_of(word)));
  for (const int pid : {static_cast<int>(stranger), ended_process()}) {
    world.segment->member(1).pid = pid;
    EXPECT_FALSE(finds(*world.segment, 1, card_of(word)));
  }
  ::kill(stranger, SIGKILL);
  ::waitpid(stranger, nullptr, 0);
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

// As a container's filter of system calls does. The filter cannot be taken off again, so a child has it.
TEST(SingleCopy, AFilterOfSystemCallsIsNoticed) {
  const TwoRanks world;
  const std::uint64_t word = 77;
  EXPECT_TRUE(finds(*world.segment, 1, card_of(word)));
  EXPECT_EQ(unisono::testing::status_where_refused(SYS_process_vm_readv, EPERM, [&] { return !finds(*world.segment, 1, card_of(word)); }), 0);
}
