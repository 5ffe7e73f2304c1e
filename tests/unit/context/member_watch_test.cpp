// The watch on the ranks that are to form a group: the failures that the world's engine finds, in the group's words.

#include "context/formation.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "store/wrappers.h"
#include "unisono/error.h"

namespace unisono::context {
namespace {

using namespace std::chrono_literals;

/// A world of six, of which a test says what is found.
struct ScriptedWorld {
  WorldView view() {
    return {.failure = [this] { return ended; },
            .look_at = [this](std::span<const int> ranks) -> std::optional<Failure> {
              if (looks_in_vain-- > 0) return std::nullopt;
              return dead && std::ranges::find(ranks, dead->culprit) != ranks.end() ? dead : std::nullopt;
            },
            .gone = [this] { return gone_ranks; }};
  }

  std::optional<Failure> ended, dead;
  std::vector<int> gone_ranks;
  int looks_in_vain = 0;  ///< before `dead` is found
};

/// Ranks 4, 2, 5 of the world are to be a group; this one is 2 of the world.
struct Watched {
  MemberWatch watch() { return MemberWatch({"new_group", "{4, 2, 5}", 1, {4, 2, 5}, {"d", "b", "e"}, 6, world->view(), store}); }
  template <class E = PeerFailed>
  E seen(const MemberWatch& by) {
    try {
      by.look();
    } catch (const E& error) {
      return error;
    }
    throw std::runtime_error("threw nothing");
  }
  void comes(const std::string& rank) { store->set("here/" + rank, "1"); }

  std::shared_ptr<ScriptedWorld> world = std::make_shared<ScriptedWorld>();
  std::shared_ptr<Store> store = std::make_shared<MemoryStore>();
};

Failure loss(int culprit, PeerFailed::Cause cause, const std::string& message, Failure::Kind kind = Failure::Kind::peer_failed) {
  return {.kind = kind, .cause = cause, .culprit = culprit, .missing = {}, .message = message};
}

TEST(MemberWatch, ADeadMemberIsNamedInTheWordsOfTheGroup) {
  Watched group;
  group.world->dead = loss(5, PeerFailed::killed, "rank 5 was killed, as rank 5 is");
  const auto error = group.seen(group.watch());
  EXPECT_EQ(error.message(), "rank 2 was killed, as rank 5 is");
  EXPECT_EQ(error.culprit(), 2);
  EXPECT_EQ(error.rank(), 1);
  EXPECT_EQ(error.host(), "e");
  EXPECT_EQ(error.group(), "{4, 2, 5}");
  EXPECT_EQ(error.operation(), "new_group");
  EXPECT_EQ(error.cause(), PeerFailed::killed);
  group.world->dead = loss(5, PeerFailed::silent, "nobody hears rank 5");
  EXPECT_EQ(group.seen(group.watch()).message(), "nobody hears rank 5");
  group.world->dead = loss(3, PeerFailed::killed, "rank 3 was killed");  // no member
  EXPECT_NO_THROW(group.watch().look());
}

TEST(MemberWatch, AMemberThatGivesUpTheWorldMeanwhileIsNamed) {
  Watched group;
  const MemberWatch watch = group.watch();
  EXPECT_NO_THROW(watch.look());
  group.world->ended = loss(4, PeerFailed::aborted, "rank 4 gave up");
  EXPECT_EQ(group.seen(watch).message(), "rank 0 gave up");
  EXPECT_EQ(group.seen(watch).culprit(), 0);
  group.world->ended = loss(3, PeerFailed::aborted, "rank 3 gave up");  // no member
  EXPECT_NO_THROW(watch.look());
  group.world->ended = loss(4, PeerFailed::aborted, "too late", Failure::Kind::timeout);
  EXPECT_NO_THROW(watch.look());
  group.world->ended = loss(4, PeerFailed::aborted, "rank 4 gave up");
  EXPECT_NO_THROW(group.watch().look());  // before this one began
}

TEST(MemberWatch, AMemberThatHasLeftWithoutHavingComeIsNamed) {
  Watched group;
  group.world->gone_ranks = {1, 2, 4};  // the second is this one
  const auto left = group.seen(group.watch());
  EXPECT_EQ(left.message(), "rank 0 has left the job (finalize) and will not come");
  EXPECT_EQ(left.culprit(), 0);
  EXPECT_EQ(left.cause(), PeerFailed::disconnected);
  // The end of the world that came before tells how it went.
  group.world->ended = loss(4, PeerFailed::exited, "rank 4 has ended");
  EXPECT_EQ(group.seen(group.watch()).message(), "rank 0 has ended");
  EXPECT_EQ(group.seen(group.watch()).cause(), PeerFailed::exited);
  group.world->ended = loss(3, PeerFailed::exited, "rank 3 has ended");
  EXPECT_EQ(group.seen(group.watch()).message(), left.message());
  // A rank that has come may be done with the group already.
  group.comes("0");
  EXPECT_NO_THROW(group.watch().look());
}

// Nobody can say then who has come: whoever has left is told of.
TEST(MemberWatch, AMemberThatHasLeftAndTheStoreWithItIsNamed) {
  Watched group;
  group.store = std::make_shared<store::WatchedStore>(group.store, [] { throw PeerFailed("the store is gone"); });
  group.world->gone_ranks = {4};
  EXPECT_EQ(group.seen(group.watch()).culprit(), 0);
}

TEST(MemberWatch, TheWatchSaysWhoDidNotCome) {
  Watched group;
  group.comes("0");
  try {
    group.watch().assemble(*group.store, base::Deadline(50ms));
    FAIL() << "rank 2 has not come";
  } catch (const Timeout& error) {
    EXPECT_EQ(error.message(), "rank 2 did not come within 50 ms");
    EXPECT_EQ(error.missing(), std::vector<int>{2});
    EXPECT_EQ(error.rank(), 1);
  }
}

/// The failure that an error is taken for.
std::exception_ptr explained(Watched& group, const std::exception_ptr& error) { return group.watch().explain(error); }

template <class E>
std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const E& e) {
    return e.what();
  } catch (...) {
    return "another type";
  }
}

TEST(MemberWatch, ABrokenConnectionIsTheDeathOfAMember) {
  Watched group;
  group.world->dead = loss(4, PeerFailed::killed, "rank 4 was killed");
  const auto broken = std::make_exception_ptr(std::runtime_error("the connection broke"));
  EXPECT_NE(text_of<PeerFailed>(explained(group, broken)).find("rank 0 was killed"), std::string::npos);
  // An error that names its culprit or cause itself stays so.
  for (const auto& error : {std::make_exception_ptr(PeerFailed("rank 2 gave up", {.culprit = 2}, PeerFailed::aborted)),
                            std::make_exception_ptr(InvalidArgument("the argument")), std::make_exception_ptr(Timeout("too late"))}) {
    EXPECT_EQ(explained(group, error), error);
  }
  group.world->dead.reset();
  EXPECT_EQ(explained(group, broken), broken);  // nobody has died
}

TEST(MemberWatch, TheStoreMayHaveGoneWithARankThatIsNoMember) {
  Watched group;
  group.world->dead = loss(3, PeerFailed::killed, "rank 3 was killed");
  const auto store_is_gone = std::make_exception_ptr(PeerFailed("the store is gone"));
  const std::string text = text_of<PeerFailed>(explained(group, store_is_gone));
  EXPECT_NE(text.find("rank 3 was killed (rank 3 of the world), and the job's store with it"), std::string::npos) << text;
  const auto other = std::make_exception_ptr(std::runtime_error("no memory"));
  EXPECT_EQ(explained(group, other), other);
  group.world->dead = loss(0, PeerFailed::killed, "rank 0 was killed");
  EXPECT_NE(text_of<PeerFailed>(explained(group, store_is_gone)).find("rank 0 was killed (rank 0 of the world)"), std::string::npos);
  group.world->dead = loss(1, PeerFailed::killed, "rank 1 was killed");
  EXPECT_NE(text_of<PeerFailed>(explained(group, store_is_gone)).find("rank 1 was killed (rank 1 of the world)"), std::string::npos);
}

TEST(MemberWatch, AMemberThatDiesAfterTheLookAtTheMembersIsNamedByItsRankInTheGroup) {
  Watched group;
  group.world->dead = loss(4, PeerFailed::killed, "rank 4 was killed");
  group.world->looks_in_vain = 1;
  try {
    std::rethrow_exception(explained(group, std::make_exception_ptr(PeerFailed("the store is gone"))));
  } catch (const PeerFailed& error) {
    EXPECT_EQ(error.culprit(), 0);
    EXPECT_EQ(error.message(), "rank 0 was killed");
  }
}

}  // namespace
}  // namespace unisono::context
