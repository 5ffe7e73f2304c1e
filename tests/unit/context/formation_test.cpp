// A group that does not come about: what one member says is what the others throw.

#include "context/formation.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/error.h"

namespace unisono::context {
namespace {

using namespace std::chrono_literals;

/// Three ranks, one of which gives up, and what another then gets.
struct Forming {
  Formation::Parts parts(int rank, const std::string& group = "{0, 1, 2}") {
    return {.operation = "new_group", .group = group, .rank = rank, .size = 3, .hosts = {"a", "b", "c"}, .store = store};
  }
  template <class E>
  E heard(const std::exception_ptr& reason, const std::string& group = "{0, 1, 2}") {
    Formation(parts(1, group)).give_up(reason);
    const Formation other(parts(2, group));
    try {
      static_cast<void>(other.watched()->get("what never comes", 60s));
    } catch (const E& error) {
      return error;
    }
    throw std::runtime_error("threw nothing");
  }

  std::shared_ptr<MemoryStore> store = std::make_shared<MemoryStore>();
};

template <class E>
std::exception_ptr thrown(E error) {
  return std::make_exception_ptr(std::move(error));
}

TEST(Formation, TheRankThatFailsIsTheCulprit) {
  const auto error = Forming().heard<PeerFailed>(thrown(std::runtime_error("no memory")));
  EXPECT_EQ(error.message(), "rank 1 cannot form the group: no memory");
  EXPECT_EQ(error.culprit(), 1);
  EXPECT_EQ(error.host(), "b");
  EXPECT_EQ(error.rank(), 2);
  EXPECT_EQ(error.group(), "{0, 1, 2}");
  EXPECT_EQ(error.operation(), "new_group");
  EXPECT_EQ(error.cause(), PeerFailed::aborted);
  EXPECT_EQ(Forming().heard<PeerFailed>(thrown(std::runtime_error("no\tmemory")), "").message(), "rank 1 cannot join: no\tmemory");
}

// While there is no world, the hosts may not be known.
TEST(Formation, AHostThatIsNotKnownIsNotNamed) {
  for (const std::vector<std::string>& hosts : {std::vector<std::string>{}, std::vector<std::string>{"a"}}) {
    Forming forming;
    Formation(forming.parts(1)).give_up(thrown(std::runtime_error("no memory")));
    auto parts = forming.parts(2, "");
    parts.hosts = base::RepeatedTexts(hosts);
    const Formation other(std::move(parts));
    try {
      static_cast<void>(other.watched()->get("what never comes", 60s));
      FAIL() << "threw nothing";
    } catch (const PeerFailed& error) {
      EXPECT_EQ(error.culprit(), 1);
      EXPECT_EQ(error.host(), "");
    }
  }
}

TEST(Formation, ALossThatDoesNotSayHowIsAFailure) {
  Forming forming;
  forming.store->set("failed", "1\tlost\tgone");
  const Formation other(forming.parts(2));
  try {
    static_cast<void>(other.watched()->get("what never comes", 60s));
    FAIL() << "threw nothing";
  } catch (const PeerFailed& error) {
    EXPECT_EQ(error.message(), "rank 1 cannot form the group: gone");
    EXPECT_EQ(error.cause(), PeerFailed::aborted);
  }
}

TEST(Formation, ALossThatOneNoticedIsTheLossOfAll) {
  const auto lost = Forming().heard<PeerFailed>(thrown(PeerFailed("rank 0 is dead", {.culprit = 0}, PeerFailed::Cause::killed)));
  EXPECT_EQ(lost.message(), "rank 0 is dead");
  EXPECT_EQ(lost.culprit(), 0);
  EXPECT_EQ(lost.host(), "a");
  EXPECT_EQ(lost.cause(), PeerFailed::Cause::killed);
  const auto nobody = Forming().heard<PeerFailed>(thrown(PeerFailed("the store is gone", {}, PeerFailed::Cause::disconnected)));
  EXPECT_EQ(nobody.message(), "rank 1 cannot form the group: the store is gone");
  EXPECT_EQ(nobody.culprit(), 1);
  EXPECT_EQ(nobody.cause(), PeerFailed::aborted);
}

TEST(Formation, ATimeIsOverForAllOfThem) {
  const auto error = Forming().heard<Timeout>(thrown(Timeout("ranks 0, 12 did not come", {}, {0, 12})));
  EXPECT_EQ(error.message(), "rank 1 gave up: ranks 0, 12 did not come");
  EXPECT_EQ(error.missing(), (std::vector<int>{0, 12}));
  EXPECT_EQ(error.culprit(), std::nullopt);
  EXPECT_EQ(error.host(), "");
  EXPECT_TRUE(Forming().heard<Timeout>(thrown(Timeout("nobody came", {}, {}))).missing().empty());
}

TEST(Formation, TheFirstToGiveUpIsHeard) {
  Forming forming;
  Formation(forming.parts(0)).give_up(thrown(std::runtime_error("first")));
  EXPECT_EQ(forming.heard<PeerFailed>(thrown(std::runtime_error("second"))).message(), "rank 0 cannot form the group: first");
}

TEST(Formation, ARankAloneHasNobodyToTell) {
  Forming forming;
  auto parts = forming.parts(0);
  parts.size = 1;
  parts.look = [] { throw std::logic_error("looked"); };
  Formation formation(std::move(parts));
  formation.give_up(thrown(std::runtime_error("no memory")));
  EXPECT_EQ(forming.store->num_keys(), 0);
  formation.watched()->set("key", "value");
  EXPECT_EQ(formation.watched()->get("key", 60s), "value");
  EXPECT_THROW(static_cast<void>(formation.watched()->get("what never comes", 300ms)), Timeout);
}

/// Remembers what was waited for.
class ListeningStore final : public Store {
 public:
  void set(std::string_view key, std::string_view value) override { inner_.set(key, value); }
  std::string get(std::string_view key, std::optional<Milliseconds> timeout) override { return inner_.get(key, timeout); }
  std::optional<std::string> try_get(std::string_view key) override { return inner_.try_get(key); }
  std::int64_t add(std::string_view key, std::int64_t amount) override { return inner_.add(key, amount); }
  void wait(std::span<const std::string> keys, std::optional<Milliseconds>) override { waited_for.assign(keys.begin(), keys.end()); }
  std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired) override {
    return inner_.compare_set(key, expected, desired);
  }
  bool erase(std::string_view key) override { return inner_.erase(key); }
  std::int64_t num_keys() override { return inner_.num_keys(); }

  std::vector<std::string> waited_for;

 private:
  MemoryStore inner_;
};

TEST(Formation, TheServerOfTheStoreWaitsUntilTheOthersHaveReadIt) {
  const auto store = std::make_shared<ListeningStore>();
  auto parts = Forming().parts(1);
  parts.store = store;
  parts.serves_store = true;
  Formation(parts).give_up(thrown(std::runtime_error("no memory")));
  EXPECT_EQ(store->try_get("failed"), "1\tfailed\tno memory");
  EXPECT_EQ(store->waited_for, (std::vector<std::string>{"read/0", "read/2"}));
  store->waited_for.clear();
  parts.serves_store = false;
  Formation(parts).give_up(thrown(std::runtime_error("no memory")));
  EXPECT_TRUE(store->waited_for.empty());
}

TEST(Formation, OneThatDoesNotServeItSaysThatItHasRead) {
  Forming forming;
  Formation(forming.parts(2)).give_up(thrown(std::runtime_error("heard")));
  EXPECT_EQ(forming.store->get("read/2", 60s), "1");
}

TEST(Formation, NothingIsWatchedOnceItIsOver) {
  Forming forming;
  std::shared_ptr<Store> watched;
  {
    const Formation formation(forming.parts(2));
    watched = formation.watched();
  }
  Formation(forming.parts(1)).give_up(thrown(std::runtime_error("too late")));
  EXPECT_THROW(static_cast<void>(watched->get("what never comes", 300ms)), Timeout);
}

// A member that fails says why, and ends the world afterwards. Both may happen between the two looks of another.
TEST(Formation, TheReasonComesBeforeItsConsequence) {
  Forming forming;
  auto parts = forming.parts(2);
  parts.look = [&forming] {
    Formation(forming.parts(1)).give_up(thrown(std::runtime_error("no memory")));
    throw PeerFailed("rank 1 gave up", {.culprit = 1}, PeerFailed::Cause::aborted);
  };
  const Formation formation(std::move(parts));
  try {
    static_cast<void>(formation.watched()->get("what never comes", 60s));
    FAIL() << "threw nothing";
  } catch (const PeerFailed& error) {
    EXPECT_EQ(error.message(), "rank 1 cannot form the group: no memory");
  }
}

TEST(Formation, LossesThatAreKnownWithoutTheStoreAreLookedAt) {
  Forming forming;
  auto parts = forming.parts(2);
  parts.look = [] { throw PeerFailed("rank 1 is dead", {.culprit = 1}, PeerFailed::Cause::killed); };
  const Formation formation(std::move(parts));
  EXPECT_THROW(static_cast<void>(formation.watched()->get("what never comes", 60s)), PeerFailed);
}

}  // namespace
}  // namespace unisono::context
