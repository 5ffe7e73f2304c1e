// How processes ask to be taken in, are called, and how a generation is decided: rendezvous/growth.h.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "rendezvous/growth.h"
#include "thrown_by.h"
#include "unisono/error.h"
#include "unisono/store.h"

namespace unisono::rendezvous {
namespace {

using namespace std::chrono_literals;

std::vector<std::string> names_of(const std::vector<Newcomer>& newcomers) {
  std::vector<std::string> names;
  for (const Newcomer& newcomer : newcomers) names.push_back(newcomer.name);
  return names;
}

class GrowthKeysTest : public ::testing::Test {
 protected:
  using Names = std::vector<std::string>;

  Names waiting() { return names_of(keys.waiting(done)); }
  GenerationPlan call(const Names& members) { return keys.call(members, keys.waiting(done), 5s); }

  MemoryStore store;
  GrowthKeys keys{store};
  std::int64_t done = 0;
};

TEST_F(GrowthKeysTest, ThoseThatAskAreCalledInTheirOrderBehindTheMembers) {
  EXPECT_EQ(waiting(), Names{});
  EXPECT_EQ(keys.ask("3.1"), 0);
  EXPECT_EQ(keys.ask("1.2"), 1);
  EXPECT_EQ(waiting(), (Names{"3.1", "1.2"}));
  const auto generation = call({"0", "2"});
  EXPECT_EQ(generation.number, 2);
  EXPECT_EQ(generation.names, (Names{"0", "2", "3.1", "1.2"}));
  for (const std::int64_t ticket : {0, 1}) {
    const auto seen = keys.await_call(ticket, 0);
    EXPECT_EQ(seen.number, 2);
    EXPECT_EQ(seen.survivors, 2);
    EXPECT_EQ(seen.timeout, 5s);
    EXPECT_EQ(seen.names, generation.names);
  }
}

TEST_F(GrowthKeysTest, TheLastOneThatIsReadyDecides) {
  keys.ask("1.1");
  const auto generation = call({"0"});
  keys.ready(generation);
  EXPECT_THROW(static_cast<void>(keys.await_decision(generation, 1ms)), Timeout);
  keys.ready(generation);
  EXPECT_TRUE(keys.await_decision(generation, 1ms).formed);
  EXPECT_TRUE(keys.abandon(generation, 0, "too late").formed);
  EXPECT_EQ(waiting(), Names{});
  EXPECT_EQ(done, 1);
}

TEST_F(GrowthKeysTest, AGenerationThatWasAbandonedStaysSo) {
  keys.ask("1.1");
  keys.ask("2.1");
  const auto generation = call({"0"});
  const auto first = keys.abandon(generation, 2, "no memory\tat all");
  EXPECT_FALSE(first.formed);
  EXPECT_EQ(first.culprit, 2);
  for (int i = 0; i < 3; ++i) keys.ready(generation);
  const auto decision = keys.await_decision(generation, 1ms);
  EXPECT_FALSE(decision.formed);
  EXPECT_EQ(decision.text, "no memory\tat all");
  const auto error = thrown_by<PeerFailed>([&] { keys.look(generation, 1); });
  EXPECT_EQ(error.culprit(), 2);
  EXPECT_EQ(error.cause(), PeerFailed::Cause::aborted);
  // The one to blame is refused for good, which its launcher hears as well, and the other one called again.
  EXPECT_EQ(waiting(), Names{"1.1"});
  EXPECT_TRUE(store.try_get("unisono/lost/2.1"));
  EXPECT_FALSE(store.try_get("unisono/lost/1.1"));
  EXPECT_EQ(call({"0"}).names, (Names{"0", "1.1"}));
  EXPECT_EQ(keys.await_call(0, 1).number, 3);
  EXPECT_THROW(static_cast<void>(keys.await_call(1, 1)), Timeout);
}

TEST_F(GrowthKeysTest, ANewcomerThatHasEndedIsCalledNoMore) {
  keys.ask("1.1");
  keys.ask("2.1");
  store.set("unisono/exit/1.1", "signal 9");
  EXPECT_EQ(waiting(), Names{"2.1"});
  EXPECT_EQ(done, 1);
  const auto generation = call({"0", "3"});
  keys.look(generation, 0);
  store.set("unisono/exit/1", "exit 7");  // the process that was in that place before
  keys.look(generation, 0);
  store.set("unisono/exit/2.1", "exit 7");
  const auto error = thrown_by<PeerFailed>([&] { keys.look(generation, 0); });
  EXPECT_EQ(error.culprit(), 2);
  EXPECT_EQ(error.cause(), PeerFailed::Cause::exited);
}

// Its members are gone or have gone on: it will get no decision from them.
TEST_F(GrowthKeysTest, AGenerationWithoutADecisionIsOverForTheNextCaller) {
  keys.ask("1.1");
  const auto first = call({"0", "2"});
  EXPECT_EQ(waiting(), Names{"1.1"});
  keys.ready(first);
  EXPECT_FALSE(keys.await_decision(first, 1ms).formed);
  EXPECT_EQ(call({"2"}).number, 3);
}

TEST_F(GrowthKeysTest, AProcessLearnsThatTheOthersHaveGoneOnWithoutIt) {
  EXPECT_FALSE(keys.is_lost("2.1"));
  keys.note_lost("2.1");
  EXPECT_TRUE(keys.is_lost("2.1"));
  EXPECT_FALSE(keys.is_lost("2"));
}

TEST_F(GrowthKeysTest, WhatIsNoneOfOursIsRefused) {
  EXPECT_THROW(Decision::parse("perhaps"), ProtocolError);
  EXPECT_THROW(Decision::parse("abandoned by all"), ProtocolError);
  store.set("unisono/grow/7/members", "3 1000 0 1");
  EXPECT_THROW(static_cast<void>(keys.read(7)), ProtocolError);
  store.set("unisono/grow/tickets", "-1");
  EXPECT_THROW(static_cast<void>(keys.waiting(done)), ProtocolError);
  EXPECT_EQ(place_of("12.3"), 12);
  EXPECT_THROW(static_cast<void>(place_of("x")), ProtocolError);
}

}  // namespace
}  // namespace unisono::rendezvous
