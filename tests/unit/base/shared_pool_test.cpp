#include "base/shared_pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <new>
#include <thread>
#include <vector>

#include "unisono/shared_memory.h"

using namespace unisono;
using base::MappedPool;
using base::SharedPool;

namespace {
constexpr std::size_t mebibyte = std::size_t{1} << 20;

/// The exit code of a child that runs `body`; 128 + the signal that ended it.
template <class F>
int in_child(F&& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
}  // namespace

TEST(SharedPool, APoolGivesBlocksThatDoNotTouchAndTakesThemBack) {
  auto pool = SharedPool::make(64 * mebibyte);
  ASSERT_NE(pool, nullptr);
  std::vector<std::pair<std::byte*, std::size_t>> blocks;
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{4096}, std::size_t{4097}, mebibyte, std::size_t{123457}}) {
    auto* block = static_cast<std::byte*>(pool->allocate(bytes, 64));
    std::memset(block, static_cast<int>(blocks.size() + 1), bytes);
    blocks.emplace_back(block, bytes);
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const auto [block, bytes] = blocks[i];
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % 64, 0U);
    EXPECT_TRUE(pool->offset_of(block, bytes).has_value());
    for (std::size_t k = 0; k < bytes; ++k) ASSERT_EQ(block[k], static_cast<std::byte>(i + 1));
  }
  void* aligned = pool->allocate(100, mebibyte);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(aligned) % mebibyte, 0U);
  pool->deallocate(aligned, 100, mebibyte);
  // In an order that joins neighbours on either side, and on both.
  for (const std::size_t i : {1, 3, 2, 0, 4}) pool->deallocate(blocks[i].first, blocks[i].second, 64);
  EXPECT_EQ(pool->allocated(), 0U);
  void* whole = pool->allocate(pool->size(), 64);
  EXPECT_THROW(static_cast<void>(pool->allocate(1, 64)), std::bad_alloc);
  pool->deallocate(whole, pool->size(), 64);
}

TEST(SharedPool, APoolKnowsItsOwnMemory) {
  auto pool = SharedPool::make(64 * mebibyte);
  ASSERT_NE(pool, nullptr);
  std::byte* base = pool->base();
  EXPECT_EQ(pool->offset_of(base + 100, 10), 100U);
  EXPECT_EQ(pool->offset_of(base, pool->size()), 0U);
  EXPECT_FALSE(pool->offset_of(base, pool->size() + 1).has_value());
  EXPECT_FALSE(pool->offset_of(base + pool->size() - 1, 2).has_value());
  EXPECT_FALSE(pool->offset_of(base - 1, 1).has_value());
  int local = 0;
  EXPECT_FALSE(pool->offset_of(&local, sizeof local).has_value());
}

TEST(SharedPool, APoolIsReachedByAnotherProcess) {
  auto pool = SharedPool::make(64 * mebibyte);
  ASSERT_NE(pool, nullptr);
  auto* numbers = static_cast<int*>(pool->allocate(mebibyte, 64));
  numbers[1000] = 41;
  const auto offset = *pool->offset_of(numbers, mebibyte);
  const pid_t owner = ::getpid();
  EXPECT_EQ(in_child([&] {
              const auto mapped = MappedPool::map(owner, pool->descriptor(), pool->inode(), pool->size());
              if (!mapped) return 1;
              const auto* theirs = reinterpret_cast<const int*>(mapped->base() + offset);
              return theirs[1000] == 41 ? 0 : 2;
            }),
            0);
  EXPECT_EQ(MappedPool::map(owner, pool->descriptor(), pool->inode() + 1, pool->size()), nullptr) << "another file than announced";
  EXPECT_EQ(MappedPool::map(owner, pool->descriptor(), pool->inode(), pool->size() + 4096), nullptr) << "another size than announced";
  EXPECT_EQ(MappedPool::map(owner, 1 << 20, pool->inode(), pool->size()), nullptr) << "no such descriptor";
}

// Address space is finite: a process maps a pool once, however many groups ask, and no more of all of them than it can spare.
TEST(SharedPool, APoolIsMappedOnce) {
  auto pool = SharedPool::make(64 * mebibyte);
  ASSERT_NE(pool, nullptr);
  const auto map = [&] { return MappedPool::map(::getpid(), pool->descriptor(), pool->inode(), pool->size()); };
  auto first = map();
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(map(), first);
  const std::weak_ptr<const MappedPool> seen = first;
  first.reset();
  EXPECT_TRUE(seen.expired());
  EXPECT_NE(map(), nullptr);
}

TEST(SharedPool, APoolIsNotMappedWhereAddressSpaceWouldRunOut) {
  constexpr std::size_t large = std::size_t{5} << 40;
  std::vector<std::unique_ptr<SharedPool>> pools;
  std::vector<std::shared_ptr<const MappedPool>> mapped;
  const auto map = [](const SharedPool& pool) { return MappedPool::map(::getpid(), pool.descriptor(), pool.inode(), pool.size()); };
  for (int i = 0; i < 7; ++i) {
    pools.push_back(SharedPool::make(large));
    if (pools.back() == nullptr || pools.back()->size() != large) GTEST_SKIP() << "this process has too little address space to try";
    mapped.push_back(map(*pools.back()));
    EXPECT_EQ(mapped.back() != nullptr, i < 6) << i;
  }
  mapped.front().reset();
  EXPECT_NE(map(*pools.back()), nullptr) << "what was given back is there again";
}

// A file that grows beyond this limit ends its process.
TEST(SharedPool, APoolKeepsToTheLimitOfFileSizes) {
  for (const std::size_t limit : {std::size_t{1000}, 64 * mebibyte, 100 * mebibyte + 1}) {
    EXPECT_EQ(in_child([&] {
                const rlimit bytes{limit, limit};
                ::setrlimit(RLIMIT_FSIZE, &bytes);
                const auto pool = SharedPool::make(1024 * mebibyte);
                if (limit < 64 * mebibyte) return pool == nullptr ? 0 : 1;
                return pool != nullptr && pool->size() <= limit ? 0 : 2;
              }),
              0)
        << limit;
  }
}

TEST(SharedMemory, SharedMemoryIsWhatContainersAllocateFrom) {
  shared_vector<float> x(1000, 1.5F);
  ASSERT_NE(base::shared_pool(), nullptr);
  EXPECT_TRUE(base::shared_pool()->offset_of(x.data(), 4000).has_value());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(x.data()) % 64, 0U);
  x.resize(100000, 2.5F);
  EXPECT_EQ(x[999], 1.5F);
  EXPECT_EQ(x[99999], 2.5F);
  EXPECT_TRUE(is_shared(x.data(), 400000));
  EXPECT_FALSE(is_shared(&x, sizeof x));  // NOLINT(bugprone-sizeof-container): the object itself
  std::pmr::vector<double> y(100, 3.0, shared_resource());
  EXPECT_TRUE(base::shared_pool()->offset_of(y.data(), 800).has_value());
  const shared_vector<float> copy = x;
  EXPECT_EQ(copy, x);
}

TEST(SharedMemory, SharedMemoryIsAskedForByManyThreads) {
  std::vector<std::thread> threads;
  testing::internal::CaptureStderr();
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (std::size_t i = 1; i < 60; ++i) {
        shared_vector<int> x(i * 300, t);
        for (const int value : x) ASSERT_EQ(value, t);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << "the pool was found full";
}

// A child of fork must not write into its parent's memory: it has a pool of its own, and lets go of the parent's without harm.
TEST(SharedMemory, SharedMemoryIsNotInheritedByAChild) {
  auto parents = std::make_unique<shared_vector<int>>(100000, 7);
  const auto* before = base::shared_pool();
  EXPECT_EQ(in_child([&] {
              if (base::shared_pool() != nullptr) return 1;
              shared_vector<int> own(100000, 8);
              if (base::shared_pool() == nullptr || base::shared_pool() == before) return 2;
              parents.reset();
              const shared_vector<int> another(100000, 9);  // in what the parent's was given back to, if that was taken for the child's
              for (const int value : own) {
                if (value != 8) return 3;
              }
              return 0;
            }),
            0);
  EXPECT_EQ((*parents)[99999], 7);
  EXPECT_EQ(base::shared_pool(), before);
}

// A child of the child does not take memory from two forks ago for its own, or for ordinary memory.
TEST(SharedMemory, SharedMemoryIsNotInheritedByAGrandchild) {
  auto parents = std::make_unique<shared_vector<int>>(100000, 7);
  EXPECT_EQ(in_child([&] {
              auto childs = std::make_unique<shared_vector<int>>(100000, 8);
              return in_child([&] {
                const shared_vector<int> own(100000, 9);
                parents.reset();
                childs.reset();
                const shared_vector<int> another(100000, 10);
                for (const int value : own) {
                  if (value != 9) return 1;
                }
                return 0;
              });
            }),
            0);
}
