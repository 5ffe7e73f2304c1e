// Groups of their own, formed through a store: beside the process's context and beside each other.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "covers.h"
#include "recorder/whereabouts.h"
#include "running_command.h"
#include "spawn_ranks.h"
#include "unisono/unisono.h"

namespace unisono::testing {
namespace {

Membership member(const std::shared_ptr<Store>& store, const std::string& name, int rank, int size) {
  return Membership({.store = std::make_shared<PrefixStore>(name, store), .rank = rank, .size = size, .name = name});
}

TEST(Membership, SeveralGroupsExistBesideTheContext) {
  COVERS("TS-22");
  const TemporaryFolder folder;
  const auto results = spawn(ranks(3), [path = folder.path() + "/store"] {
    const auto store = std::make_shared<FileStore>(path);
    std::vector<int> seen;
    Membership reversed = member(store, "reversed", 2 - rank(), 3);
    const auto order = all_gather(rank(), reversed.group());
    seen.insert(seen.end(), order.begin(), order.end());
    if (rank() != 1) {
      Membership pair = member(store, "pair", rank() / 2, 2);
      seen.push_back(all_reduce(rank() + 10, ReduceOp::sum, pair.group()));
      seen.push_back(pair.group().name() == "pair" && pair.group().global_rank(1) == 1 ? 1 : 0);
    }
    seen.push_back(all_reduce(1));  // the context's world is none of theirs
    reversed.leave();
    try {
      static_cast<void>(reversed.group());
    } catch (const NotInitialized&) {
      seen.push_back(-1);
    }
    Membership again = member(store, "again", rank(), 3);
    seen.push_back(all_reduce(rank(), ReduceOp::max, again.group()));
    return seen;
  });
  EXPECT_EQ(results[0], (std::vector<int>{2, 1, 0, 22, 1, 3, -1, 2}));
  EXPECT_EQ(results[1], (std::vector<int>{2, 1, 0, 3, -1, 2}));
  EXPECT_EQ(results[2], (std::vector<int>{2, 1, 0, 22, 1, 3, -1, 2}));
}

/// The keys that are asked for.
class Noting final : public Store {
 public:
  explicit Noting(std::shared_ptr<Store> inner) : inner_(std::move(inner)) {}
  std::size_t keys() const {
    const std::lock_guard lock(mutex_);
    return keys_.size();
  }
  void set(std::string_view key, std::string_view value) override { inner_->set(noted(key), value); }
  std::string get(std::string_view key, std::optional<Milliseconds> timeout) override { return inner_->get(noted(key), timeout); }
  std::optional<std::string> try_get(std::string_view key) override { return inner_->try_get(noted(key)); }
  std::int64_t add(std::string_view key, std::int64_t amount) override { return inner_->add(noted(key), amount); }
  void wait(std::span<const std::string> keys, std::optional<Milliseconds> timeout) override {
    for (const std::string& key : keys) noted(key);
    inner_->wait(keys, timeout);
  }
  std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired) override {
    return inner_->compare_set(noted(key), expected, desired);
  }
  bool erase(std::string_view key) override { return inner_->erase(noted(key)); }
  std::int64_t num_keys() override { return inner_->num_keys(); }

 private:
  std::string_view noted(std::string_view key) {
    const std::lock_guard lock(mutex_);
    keys_.emplace(key);
    return key;
  }
  std::shared_ptr<Store> inner_;
  mutable std::mutex mutex_;
  std::set<std::string, std::less<>> keys_;
};

TEST(Membership, FormingItIsNoCallOfTheProgram) {
  const TemporaryFolder folder;
  const auto results = spawn(ranks(2), [path = folder.path() + "/store"] {
    const Membership first = member(std::make_shared<FileStore>(path), "first", rank(), 2);
    const auto part = new_group({1, 0});
    const Membership second = member(std::make_shared<FileStore>(path), "second", 1 - rank(), 2);
    return recorder::whereabouts_of(::getpid());
  });
  EXPECT_EQ(results, std::vector<std::string>(2, "has made no call yet"));
}

// The hosts of the ranks are asked for once, and one rank compares the wishes of all: a job of thousands does not ask its store millions of
// questions.
TEST(Membership, AMembershipAsksTheStoreForAFixedNumberOfKeysPerRank) {
  const auto asked_by = [](int size) {
    const TemporaryFolder folder;
    const auto results = spawn(ranks(size), [path = folder.path() + "/store", size] {
      const auto store = std::make_shared<Noting>(std::make_shared<FileStore>(path));
      const Membership all({.store = store, .rank = rank(), .size = size, .name = "all"});
      const auto keys = static_cast<int>(store->keys());
      return all_reduce(keys, ReduceOp::sum, all.group());
    });
    return results.front();
  };
  // Beside what each rank asks, one or two look at all the others; what each asked of each other would be 64 keys more.
  EXPECT_LE(asked_by(8), 4 * asked_by(2) + 4 * 8);
}

TEST(Membership, GroupsOfTheSameProcessesShareTheirHandles) {
  const auto handles = [] {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      if (std::filesystem::read_symlink(entry, gone) == "anon_inode:[pidfd]") ++count;
    }
    return count;
  };
  const auto results = spawn(ranks(3), [handles] {
    const int before = handles();
    std::vector<ProcessGroup> groups;
    for (int i = 0; i < 4; ++i) groups.push_back(*new_group({2, 0, 1}));
    for (const ProcessGroup& group : groups) barrier(group);
    return std::vector<int>{before, handles()};
  });
  for (const auto& counts : results) {
    EXPECT_GE(counts[0], 2) << "one handle on each other rank, if this is how a handle reads in /proc";
    EXPECT_EQ(counts[1], counts[0]);
  }
}

TEST(Membership, AMemberThatGivesUpIsSeenByTheOthers) {
  const TemporaryFolder folder;
  const auto results = spawn(ranks(2), [path = folder.path() + "/store"] {
    std::string text = "left";
    try {
      Membership both = member(std::make_shared<FileStore>(path), "both", rank(), 2);
      if (rank() == 0) throw std::runtime_error("no more");
      static_cast<void>(all_reduce(1, ReduceOp::sum, both.group()));
    } catch (const PeerFailed& error) {
      text = std::string(error.what());
    } catch (const std::runtime_error&) {
    }
    return text;
  });
  EXPECT_EQ(results[0], "left");
  EXPECT_NE(results[1].find("rank 0"), std::string::npos) << results[1];
  EXPECT_NE(results[1].find("both"), std::string::npos) << results[1];
}

/// A store of which somebody hears what is asked of it: the key, or the first one.
class Heard final : public Store {
 public:
  Heard(std::shared_ptr<Store> inner, std::function<void(std::string_view key)> hear) : inner_(std::move(inner)), hear_(std::move(hear)) {}

  void set(std::string_view key, std::string_view value) override { asked(key).set(key, value); }
  std::string get(std::string_view key, std::optional<Milliseconds> timeout) override { return asked(key).get(key, timeout); }
  std::optional<std::string> try_get(std::string_view key) override { return asked(key).try_get(key); }
  std::int64_t add(std::string_view key, std::int64_t amount) override { return asked(key).add(key, amount); }
  void wait(std::span<const std::string> keys, std::optional<Milliseconds> timeout) override { asked(keys.front()).wait(keys, timeout); }
  std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired) override {
    return asked(key).compare_set(key, expected, desired);
  }
  bool erase(std::string_view key) override { return asked(key).erase(key); }
  std::int64_t num_keys() override { return asked({}).num_keys(); }

 private:
  Store& asked(std::string_view key) {
    hear_(key);
    return *inner_;
  }
  std::shared_ptr<Store> inner_;
  std::function<void(std::string_view)> hear_;
};

TEST(Membership, TheStoreMayEndWhenTheGroupIsFormed) {
  const TemporaryFolder folder;
  const auto results = spawn(ranks(3), [path = folder.path() + "/store"] {
    std::vector<int> seen;
    for (int round = 0; round < 3; ++round) {  // one after the other, in one place
      const auto calls = std::make_shared<std::atomic<int>>(0);
      const auto store = std::make_shared<Heard>(std::make_shared<FileStore>(path), [calls](std::string_view) { ++*calls; });
      Membership all({.store = store, .rank = rank(), .size = 3});
      const int formed = *calls;
      seen.push_back(all_reduce(1, ReduceOp::sum, all.group()));
      if (round == 1) all.abandon();
      else all.leave();
      seen.push_back(*calls - formed);
    }
    return seen;
  });
  for (const auto& seen : results) EXPECT_EQ(seen, (std::vector<int>{3, 0, 3, 0, 3, 0}));
}

TEST(Membership, TheServerOfTheStoreWaitsForTheReaders) {
  const TemporaryFolder folder;
  const auto results = spawn(ranks(2), [path = folder.path() + "/store", read = folder.path() + "/read"] {
    std::shared_ptr<Store> store = std::make_shared<FileStore>(path);
    if (rank() == 1) {
      store = std::make_shared<Heard>(store, [read](std::string_view key) {
        if (key.find("mapped/all") == std::string_view::npos) return;
        std::this_thread::sleep_for(std::chrono::milliseconds(300));  // a slow reader, of the last that is to be read
        std::ofstream(read).put('1');
      });
    }
    const Membership both({.store = store, .rank = rank(), .size = 2});
    return std::filesystem::exists(read);
  });
  EXPECT_TRUE(results[0]);
}

TEST(Membership, OneThatEndsSaysHow) {
  const TemporaryFolder folder;
  const auto results = spawn(ranks(2), [path = folder.path() + "/store"] {
    Membership both = member(std::make_shared<FileStore>(path), "both", rank(), 2);
    if (rank() == 0) {
      both.abandon("ended with ValueError: bad data");
      return std::string();
    }
    try {
      static_cast<void>(all_reduce(1, ReduceOp::sum, both.group()));
    } catch (const PeerFailed& error) {
      return error.message();
    }
    return std::string("nothing");
  });
  EXPECT_EQ(results[1], "rank 0 ended with ValueError: bad data");
}

TEST(Membership, AMemberMayBeAloneAndWithoutAStore) {
  try {
    const Membership homeless{MembershipOptions{}};
    ADD_FAILURE() << "formed without a store";
  } catch (const InvalidArgument& error) {
    EXPECT_EQ(error.message(), "there is no store for the members to meet in");
  }
  const auto alone = [](const std::string& backend, std::chrono::milliseconds timeout) {
    const Membership one({.store = std::make_shared<MemoryStore>(), .backend = backend, .timeout = timeout});
  };
  using namespace std::chrono_literals;
  EXPECT_THROW(alone("pigeon", 1min), Error);
  EXPECT_THROW(alone("auto", 0ms), InvalidArgument);
  EXPECT_THROW(alone("auto", -1ms), InvalidArgument);
  EXPECT_NO_THROW(alone("auto", 1ms));
  Membership one({.store = std::make_shared<MemoryStore>(), .name = "one"});
  EXPECT_EQ(all_reduce(7, ReduceOp::sum, one.group()), 7);
  EXPECT_EQ(one.group().size(), 1);
  EXPECT_THROW(Membership({.store = std::make_shared<MemoryStore>(), .rank = 2, .size = 2}), InvalidArgument);
}

}  // namespace
}  // namespace unisono::testing
