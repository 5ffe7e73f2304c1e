// The hand-over of shared memory where the system refuses: the deadline is kept, who could not is named, and the limit behind it.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <future>
#include <memory>
#include <string>

#include "failing_calls.h"
#include "transport/shm/handover.h"
#include "unisono/error.h"
#include "unisono/store.h"

namespace unisono::testing {
namespace {

using namespace std::chrono_literals;
using base::Deadline;
using transport::share_memory;
using transport::SharedMemory;

constexpr std::size_t bytes = 8192;
constexpr int always = 1 << 20;

class FailingHandover : public ::testing::Test {
 protected:
  ~FailingHandover() override { arm("accept4", 0, 0); }
  std::future<SharedMemory> take_part(int rank, std::chrono::milliseconds limit, transport::RankNames names = {}) const {
    return std::async(std::launch::async, [=, store = store_] { return share_memory(*store, "memory", rank, 2, bytes, Deadline(limit), names); });
  }
  static std::string refusal(std::future<SharedMemory>& part) {
    try {
      part.get();
    } catch (const BackendUnavailable& error) {
      return error.what();
    }
    ADD_FAILURE() << "it was not refused";
    return {};
  }
  static void expect_same(std::future<SharedMemory>& giver, std::future<SharedMemory>& taker) {
    const SharedMemory given = giver.get(), taken = taker.get();
    taken.address.get()[100] = std::byte{42};
    EXPECT_EQ(given.address.get()[100], std::byte{42});
  }
  std::shared_ptr<MemoryStore> store_ = std::make_shared<MemoryStore>();
};

TEST_F(FailingHandover, TheDeadlineIsKeptAndTheLimitNamedWithoutDescriptors) {
  arm("accept4", 1, EMFILE, always);
  auto giver = take_part(0, 3s, {4, 7});
  auto taker = take_part(1, 1s, {4, 7});
  const std::string said = refusal(giver);
  EXPECT_NE(said.find("rank 4 cannot take connections"), std::string::npos) << said;
  EXPECT_NE(said.find("ulimit -n"), std::string::npos) << said;
  EXPECT_TRUE(has_struck());
  EXPECT_LT(calls_of("accept4"), 100);  // it waits between them
  try {
    taker.get();
    ADD_FAILURE() << "nobody gave it anything";
  } catch (const Timeout& error) {
    EXPECT_EQ(error.missing(), std::vector<int>{4});
  }
}

TEST_F(FailingHandover, DescriptorsThatComeBackAreUsed) {
  for (const int error : {EMFILE, ENFILE, ENOMEM, ENOBUFS, EINTR, ECONNABORTED}) {
    arm("accept4", 1, error);
    auto giver = take_part(0, 60s);
    auto taker = take_part(1, 60s);
    expect_same(giver, taker);
    EXPECT_TRUE(has_struck());
  }
}

TEST_F(FailingHandover, InterruptionsAreGoneThrough) {
  for (const char* call : {"sendmsg", "recvmsg", "recv", "send", "connect", "poll", "ftruncate"}) {
    for (const int nth : {1, 2}) {
      arm(call, nth, EINTR);
      auto giver = take_part(0, 60s);
      auto taker = take_part(1, 60s);
      expect_same(giver, taker);
    }
  }
}

TEST_F(FailingHandover, ARankThatCannotTakeTheSegmentSaysSoItself) {
  auto giver = take_part(0, 60s, {4, 7});
  arm("recvmsg", 1, ENOMEM);
  auto taker = take_part(1, 60s, {4, 7});
  const std::string said = refusal(taker);
  EXPECT_NE(said.find("rank 7 cannot take over the shared memory that rank 4 hands it"), std::string::npos) << said;
  giver.get();  // it has handed it over, and cannot know
}

TEST_F(FailingHandover, ARankThatCannotHandTheSegmentOverSaysSoItself) {
  arm("sendmsg", 1, ENOMEM);
  auto giver = take_part(0, 60s, {4, 7});
  auto taker = take_part(1, 60s, {4, 7});
  const std::string said = refusal(giver);
  EXPECT_NE(said.find("rank 4 cannot hand shared memory to rank 7"), std::string::npos) << said;
  try {
    taker.get();
    ADD_FAILURE() << "nobody gave it anything";
  } catch (const PeerFailed& error) {
    EXPECT_EQ(error.culprit(), 4);
  }
}

TEST_F(FailingHandover, ARankThatDidNotFetchTheSegmentIsNamedAsErrorsNameIt) {
  try {
    take_part(0, 200ms, {4, 7}).get();
    ADD_FAILURE() << "nobody fetched it";
  } catch (const Timeout& error) {
    EXPECT_EQ(error.missing(), std::vector<int>{7});
    EXPECT_NE(error.message().find("rank 7"), std::string::npos) << error.message();
  }
}

// The kernel leaves out a descriptor for which there is no room, and nothing else tells.
TEST_F(FailingHandover, ARankWithoutRoomForTheDescriptorNamesItsLimit) {
  auto giver = take_part(0, 60s);
  const std::string offer = store_->get("memory", 30s);
  const pid_t child = ::fork();
  if (child == 0) {
    MemoryStore copy;
    copy.set("memory", offer);
    const int next = ::dup(0);
    ::close(next);
    const rlimit few{static_cast<rlim_t>(next) + 1, static_cast<rlim_t>(next) + 1};  // the socket, and no more
    if (::setrlimit(RLIMIT_NOFILE, &few) != 0) ::_exit(2);
    try {
      share_memory(copy, "memory", 1, 2, bytes, Deadline(30s));
    } catch (const BackendUnavailable& error) {
      const std::string said = error.what();
      ::_exit(said.find("rank 1 cannot take over") != std::string::npos && said.find("ulimit -n") != std::string::npos ? 0 : 3);
    } catch (...) {
      ::_exit(4);
    }
    ::_exit(5);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0) << "3: another message, 4: another error, 5: none";
  giver.get();
}

// The kernel does not only refuse what is beyond the limit: it ends the process by SIGXFSZ, unless that is held back.
TEST_F(FailingHandover, AFileSizeLimitIsAnErrorThatNamesIt) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit little{4096, 4096};
    if (::setrlimit(RLIMIT_FSIZE, &little) != 0) ::_exit(2);
    try {
      MemoryStore store;
      share_memory(store, "memory", 0, 2, bytes, Deadline(30s));
    } catch (const BackendUnavailable& error) {
      ::_exit(std::string(error.what()).find("ulimit -f") != std::string::npos ? 0 : 3);
    } catch (...) {
      ::_exit(4);
    }
    ::_exit(5);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0) << "3: another message, 4: another error, 5: none";
}

}  // namespace
}  // namespace unisono::testing
