#include "engines/ucx/library.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "engines/ucx/context.h"
#include "engines/ucx/engine.h"
#include "unisono/error.h"

// The library as it is found, or not.

namespace unisono::engines::ucx {
namespace {

std::string refusal_of(const std::string& name) {
  try {
    open_library(name);
  } catch (const BackendUnavailable& error) {
    return error.what();
  }
  return {};
}

TEST(Library, AMissingLibraryIsNamedWithWhatToInstall) {
  const std::string text = refusal_of("libucp_that_nobody_has.so.0");
  EXPECT_NE(text.find("libucp_that_nobody_has.so.0: cannot open shared object file"), std::string::npos) << text;
  EXPECT_NE(text.find("libucx0"), std::string::npos) << text;
  EXPECT_NE(text.find("UNISONO_UCX_LIBRARY"), std::string::npos) << text;
}

TEST(Library, ALibraryOfAnotherKindIsRefused) {
  const std::string text = refusal_of("libm.so.6");
  EXPECT_NE(text.find("libm.so.6 is not a UCX library"), std::string::npos) << text;
}

TEST(Library, TheLibraryOfThisMachineIsNewEnough) {
  const Library found = open_library("");
  unsigned major = 0, minor = 0, release = 0;
  found.ucp_get_version(&major, &minor, &release);
  EXPECT_GE(major * 100 + minor, oldest_major * 100 + oldest_minor);
  EXPECT_EQ(found.version, std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(release));
  EXPECT_EQ(why_not(), "");
}

/// Loads UCX in a process whose signals have handlers. Returns the number of a signal whose handler is another one afterwards; 0: of none.
int signal_that_loading_changes() {
  struct sigaction own {};
  own.sa_handler = [](int) {};
  own.sa_flags = SA_RESTART;
  for (const int number : {SIGSEGV, SIGHUP}) ::sigaction(number, &own, nullptr);
  constexpr std::array numbers = {SIGSEGV, SIGHUP, SIGBUS, SIGFPE, SIGILL, SIGABRT};
  const auto handlers = [&] {
    std::array<decltype(own.sa_handler), numbers.size()> all{};
    std::ranges::transform(numbers, all.begin(), [](int number) {
      struct sigaction now {};
      ::sigaction(number, nullptr, &now);
      return now.sa_handler;
    });
    return all;
  };
  const auto before = handlers();
  open_library("");
  const auto difference = std::ranges::mismatch(before, handlers());
  return difference.in1 == before.end() ? 0 : numbers.at(static_cast<std::size_t>(difference.in1 - before.begin()));
}

// UCX would print a stack and end the process where the program's own handler has to come.
TEST(Library, TheLibraryLeavesTheProgramsSignalsAlone) {
  ASSERT_EQ(std::getenv("UCX_HANDLE_ERRORS"), nullptr);
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // in a process of its own, where nothing has loaded UCX before
  EXPECT_EXIT(std::_Exit(signal_that_loading_changes()), ::testing::ExitedWithCode(0), "");
}

TEST(Settings, WrongSettingsAreAnErrorWithTheReason) {
  ::setenv("UCX_TLS", "no_such_transport", 1);
  try {
    Context context("");
    ADD_FAILURE() << "made";
  } catch (const BackendUnavailable& error) {
    EXPECT_NE(std::string(error.what()).find("check UCX_TLS"), std::string::npos) << error.what();
  }
  ::unsetenv("UCX_TLS");
}

EngineOptions options_of(int rank, int ranks, std::shared_ptr<Store> store) {
  EngineOptions options;
  options.group_name = "world";
  options.rank = rank;
  for (int r = 0; r < ranks; ++r) options.global_ranks.push_back(r);
  options.address = "127.0.0.1";
  options.store = std::move(store);
  options.timeout = std::chrono::milliseconds(200);
  return options;
}

TEST(Addresses, AddressesOfARankThatDoesNotComeAreATimeoutThatNamesIt) {
  for (const int rank : {0, 1}) {
    try {
      make_engine(options_of(rank, 3, std::make_shared<MemoryStore>()));
      FAIL() << "made";
    } catch (const Timeout& error) {
      EXPECT_EQ(error.missing(), std::vector<int>{rank == 0 ? 1 : 0}) << error.what();
    }
  }
}

TEST(Addresses, BytesThatAreNoAddressAreRefused) {
  const auto store = std::make_shared<MemoryStore>();
  store->set("addresses/0", std::string("\x03\0\0\0abc", 7));  // of one rank, and there are two
  EXPECT_THROW(make_engine(options_of(1, 2, store)), ProtocolError);
  store->set("addresses/0", std::string("\0\0\0\0\0\0\0\0", 8));  // of no length
  EXPECT_THROW(make_engine(options_of(1, 2, store)), ProtocolError);
}

TEST(Engine, AnEngineOfOneRankNeedsNoUcx) {
  const auto engine = make_engine(options_of(0, 1, nullptr));
  EXPECT_EQ(engine->name(), "ucx");
  EXPECT_THROW(engine->start_send(nullptr, 0, 0, 0), InvalidArgument);
  engine->leave();
}

}  // namespace
}  // namespace unisono::engines::ucx
