#include "unisono/results.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "covers.h"
#include "world.h"

using namespace unisono;
using namespace conformance;

namespace {

namespace fs = std::filesystem;

/// A directory that all ranks know and that goes away with the test; rank 0's.
class Scratch {
 public:
  Scratch() {
    std::string name = (fs::temp_directory_path() / "unisono-results-test-XXXXXX").native();
    if (rank() == 0 && ::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no directory to work in");
    path_ = broadcast(fs::path(name), 0);
  }
  ~Scratch() {
    barrier();
    if (rank() == 0) fs::remove_all(path_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const fs::path& path() const { return path_; }
  std::size_t entries() const { return static_cast<std::size_t>(std::distance(fs::directory_iterator(path_), fs::directory_iterator{})); }

 private:
  fs::path path_;
};

/// As many items as the rank has by `lengths`: "r:i".
std::vector<std::string> part_of(int r, const std::vector<std::size_t>& lengths) {
  std::vector<std::string> part;
  for (std::size_t i = 0; i < lengths[static_cast<std::size_t>(r)]; ++i) part.push_back(std::to_string(r) + ":" + std::to_string(i));
  return part;
}
std::vector<std::string> interleaved(const std::vector<std::size_t>& lengths, std::size_t size) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < 1000; ++i) {
    for (std::size_t r = 0; r < lengths.size(); ++r) {
      if (i < lengths[r] && all.size() < size) all.push_back(std::to_string(r) + ":" + std::to_string(i));
    }
  }
  return all;
}

void check(const std::vector<std::size_t>& lengths, std::size_t size, const CollectOptions& how) {
  const auto results = collect_results(part_of(rank(), lengths), size, how);
  ASSERT_EQ(results.has_value(), rank() == 0);
  if (results) {
    EXPECT_EQ(*results, interleaved(lengths, size));
  }
}

std::vector<CollectOptions> ways(const fs::path& directory) {
  return {{}, {.via = CollectVia::shared_dir, .tmpdir = directory}, {.via = CollectVia::shared_dir, .tmpdir = directory / "made" / "for this"}};
}

// Interleaved and cut, by communication unless files are asked for.
WORLD_TEST(CollectResults, ResultsAreInterleavedAndCut) {
  COVERS("M-10", "M-11", "M-12", "C-30", "Q-15");
  const Scratch scratch;
  const auto n = static_cast<std::size_t>(world_size());
  for (const auto& how : ways(scratch.path())) {
    const std::vector<std::size_t> even(n, 2);
    for (const std::size_t size : {2 * n, 2 * n - 1, n, std::size_t{1}, std::size_t{0}}) check(even, size, how);
    // As many as there are, where that is fewer.
    check(even, 5 * n, how);
  }
}

// Parts of different length, and none, lose nothing.
WORLD_TEST(CollectResults, UnevenAndEmptyPartsAreCollected) {
  COVERS("M-13", "K-63", "Q-14");
  const Scratch scratch;
  const auto n = static_cast<std::size_t>(world_size());
  for (const auto& how : ways(scratch.path())) {
    std::vector<std::size_t> rising(n), last_only(n), none(n), scattered(n);
    for (std::size_t r = 0; r < n; ++r) {
      rising[r] = r;
      scattered[r] = (r * 5 + 2) % 7;
    }
    last_only.back() = 9;
    for (const auto& lengths : {rising, last_only, none, scattered}) check(lengths, 1000, how);
    check(scattered, 3, how);
  }
}

// An item that is nothing is an item.
WORLD_TEST(CollectResults, ItemsThatAreNothingAreKept) {
  COVERS("M-13", "K-63", "Q-14");
  const Scratch scratch;
  using Item = std::optional<std::map<std::string, double>>;
  for (const auto& how : ways(scratch.path())) {
    std::vector<Item> part{std::nullopt, Item({{"score", rank()}}), std::nullopt};
    const auto results = collect_results(part, 1000, how);
    if (rank() != 0) continue;
    ASSERT_EQ(results->size(), 3 * static_cast<std::size_t>(world_size()));
    for (std::size_t i = 0; i < results->size(); ++i) {
      const int r = static_cast<int>(i) % world_size();
      EXPECT_EQ((*results)[i], i / static_cast<std::size_t>(world_size()) == 1 ? Item({{"score", r}}) : std::nullopt) << i;
    }
  }
}

// The user's directory stays, with what was in it, and nothing of ours; its name may be long and end in blanks.
WORLD_TEST(CollectResults, TheUsersDirectoryIsLeftAlone) {
  COVERS("K-64");
  const Scratch scratch;
  fs::path directory = scratch.path() / "ends in blanks  ";
  for (int i = 0; i < 3; ++i) directory /= std::string(200, static_cast<char>('a' + i));
  EXPECT_GT(directory.native().size(), 600U);
  if (rank() == 0) {
    fs::create_directories(directory);
    std::ofstream(directory / "mine.txt") << "mine";
  }
  barrier();
  for (int again = 0; again < 3; ++again)
    check(std::vector<std::size_t>(static_cast<std::size_t>(world_size()), 3), 100, {.via = CollectVia::shared_dir, .tmpdir = directory});
  barrier();
  EXPECT_EQ(std::distance(fs::directory_iterator(directory), fs::directory_iterator{}), 1);
  EXPECT_TRUE(fs::exists(directory / "mine.txt"));
}

// The default is a new directory where rank 0 works, and it is removed.
WORLD_TEST(CollectResults, ItsOwnDirectoryIsRemoved) {
  COVERS("M-11");
  const Scratch scratch;
  const fs::path before = fs::current_path();
  barrier();
  if (rank() == 0) fs::current_path(scratch.path());
  barrier();
  const auto n = static_cast<std::size_t>(world_size());
  check(std::vector<std::size_t>(n, 3), 100, {.via = CollectVia::shared_dir});
  barrier();
  EXPECT_EQ(scratch.entries(), 0U);
  if (rank() == 0) fs::current_path(before);
  barrier();
}

// A directory that not all ranks reach is an error on all of them, whoever it is that does not reach it, and nothing is left behind.
WORLD_TEST(CollectResults, ADirectoryThatIsNotSharedIsRefused) {
  COVERS("K-64", "Q-15");
  const Scratch scratch;
  if (rank() == 0) {
    std::ofstream(scratch.path() / "file") << "no directory";
    fs::create_directories(scratch.path() / "shared");
    fs::create_directories(scratch.path() / "elsewhere");
  }
  barrier();
  const auto collect = [&](const fs::path& directory) {
    static_cast<void>(collect_results(std::vector<int>{rank()}, 100, {.via = CollectVia::shared_dir, .tmpdir = directory}));
  };
  for (int bad = 0; bad < world_size(); ++bad) {
    // Rank 0 makes what is missing, but not below a file.
    const fs::path missing = scratch.path() / (bad == 0 ? "file/below" : "missing");
    const auto error = thrown_by<InvalidArgument>([&] { collect(rank() == bad ? missing : scratch.path() / "shared"); });
    EXPECT_EQ(error.operation(), "collect_results");
    EXPECT_EQ(error.culprit(), bad);
    EXPECT_NE(std::string(error.what()).find(missing.native()), std::string::npos) << error.what();
    if (bad > 0) {  // there, but another one
      const auto unseen = thrown_by<InvalidArgument>([&] { collect(scratch.path() / (rank() == bad ? "elsewhere" : "shared")); });
      EXPECT_EQ(unseen.culprit(), 0);
      EXPECT_NE(std::string(unseen.what()).find("part-" + std::to_string(bad)), std::string::npos) << unseen.what();
    }
    expect_usable();
  }
  EXPECT_TRUE(fs::is_empty(scratch.path() / "shared"));
  EXPECT_TRUE(fs::is_empty(scratch.path() / "elsewhere"));
}

// The smallest limit counts where limits differ, whichever way the parts go: rank 0 alone would find that it cannot read one.
MANY_TEST(CollectResults, TheSmallestLimitCounts) {
  if (!launched()) return;  // the threads of a process have one limit
  const Scratch scratch;
  const std::string part(rank() == world_size() - 1 ? 2000 : 100, 'x');
  for (const auto& how : ways(scratch.path())) {
    if (rank() == 0) set_object_limits({.bytes = 1000});
    const auto error = thrown_by<InvalidArgument>([&] { static_cast<void>(collect_results(std::vector<std::string>{part}, 100, how)); });
    EXPECT_NE(std::string(error.what()).find("the limit is 1000"), std::string::npos) << error.what();
    EXPECT_EQ(error.culprit(), world_size() - 1);
    set_object_limits({});
    EXPECT_EQ(collect_results(std::vector<std::string>{part}, 100, how).has_value(), rank() == 0);
  }
}

WORLD_TEST(CollectResults, ADirectoryWithoutFilesIsRefused) {
  EXPECT_THROW(static_cast<void>(collect_results(std::vector<int>{1}, 1, {.tmpdir = "/tmp"})), InvalidArgument);
  EXPECT_THROW(static_cast<void>(
                   collect_results(std::vector<int>{1}, 1, {.via = CollectVia::shared_dir}, world(), {.timeout = std::chrono::milliseconds(-1)})),
               InvalidArgument);
  expect_usable();
}

MANY_TEST(CollectResults, WhatRanksAskForIsCompared) {
  const Scratch scratch;
  const bool odd = rank() == world_size() - 1;
  const CollectOptions files{.via = CollectVia::shared_dir, .tmpdir = scratch.path()};
  for (const CollectOptions& how : {CollectOptions{}, files}) {
    EXPECT_THROW(
        odd ? static_cast<void>(collect_results(std::vector<int>{1}, 9, how)) : static_cast<void>(collect_results(std::vector<long>{1}, 9, how)),
        Mismatch);
  }
  EXPECT_THROW(static_cast<void>(collect_results(std::vector<int>{1}, 9, odd ? files : CollectOptions{})), Mismatch);
  const auto error = thrown_by<Mismatch>(
      [&] { static_cast<void>(collect_results(std::vector<int>{1}, 9, odd ? files : CollectOptions{.via = CollectVia::shared_dir})); });
  EXPECT_NE(std::string(error.what()).find("a directory is given"), std::string::npos) << error.what();
  EXPECT_EQ(scratch.entries(), 0U);
  expect_usable();
}

// In a group: its rank 0 gets them.
WORLD_TEST(CollectResults, CallsWorkInGroups) {
  const Scratch scratch;
  const auto group = split_group(world(), rank() % 2, -rank());
  ASSERT_TRUE(group);
  for (const auto& how : ways(scratch.path())) {
    const auto results = collect_results(std::vector<int>{rank(), rank() + 100}, 3, how, *group);
    ASSERT_EQ(results.has_value(), group->rank() == 0);
    if (!results) continue;
    std::vector<int> expected = group->global_ranks();
    for (const int r : group->global_ranks()) expected.push_back(r + 100);
    expected.resize(std::min<std::size_t>(expected.size(), 3));
    EXPECT_EQ(*results, expected);
  }
}

}  // namespace
