// Strangers that were refused and stay: they take the places of strangers, and no others.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "served_store.h"
#include "unisono/error.h"

namespace unisono::store {
namespace {

std::string greeting_of_another_version() {
  std::string theirs = greeting();
  theirs[magic.size()] = 77;
  return theirs;
}

TEST(Refused, StrangersOfAnotherVersionTakeThePlacesOfStrangers) {
  const Served served({.token = "the secret", .handshake_timeout = 60s, .most_pending = 4});
  const auto member = served.client({.token = "the secret"});
  std::vector<FileDescriptor> refused;
  for (int i = 0; i < 20; ++i) {
    refused.push_back(served.raw());
    say(refused.back(), greeting_of_another_version());
    EXPECT_EQ(hear(refused.back(), greeting_size), greeting());  // it was told why
  }
  EXPECT_LE(served.server.counts().connections, 5U);
  EXPECT_LE(served.server.counts().pending, 4U);
  expect_still_well(served, {.token = "the secret"});
}

TEST(Refused, StrangersWithAWrongProofTakeThePlacesOfStrangers) {
  const Served served({.token = "the secret", .handshake_timeout = 60s, .most_pending = 4});
  std::vector<FileDescriptor> refused;
  for (int i = 0; i < 20; ++i) {
    refused.push_back(served.raw());
    challenge(refused.back(), std::string(nonce_size, 'n'), true);
    say(refused.back(), Writer(Op::proof).text(std::string(proof_size, 'p')).finish());
    EXPECT_EQ(status_of(hear_frame(refused.back())), Status::refused);
  }
  EXPECT_LE(served.server.counts().connections, 4U);
  expect_still_well(served, {.token = "the secret"});
}

/// A process with that many connections to the store, each of which says what makes the store refuse it, and stays.
class Crowd {
 public:
  Crowd(const Served& served, int connections, const rlimit& descriptors) {
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    const std::string words = greeting_of_another_version();
    pid_ = ::fork();
    if (pid_ == 0) {
      if (::setrlimit(RLIMIT_NOFILE, &descriptors) != 0) ::_exit(1);
      for (int i = 0; i < connections; ++i) {
        const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
        if (fd < 0 || ::connect(fd, served.address.data(), served.address.size()) != 0) ::_exit(1);
        if (::send(fd, words.data(), words.size(), MSG_NOSIGNAL) < 0) continue;  // it was closed again already
      }
      [[maybe_unused]] const auto written = ::write(ready[1], "r", 1);
      for (;;) ::pause();
    }
    ::close(ready[1]);
    char byte = 0;
    EXPECT_EQ(::read(ready[0], &byte, 1), 1);
    ::close(ready[0]);
  }
  ~Crowd() {
    ::kill(pid_, SIGKILL);
    EXPECT_EQ(::waitpid(pid_, nullptr, 0), pid_);
  }
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;

 private:
  pid_t pid_ = -1;
};

TEST(Refused, StrangersDoNotUseUpTheDescriptors) {
  const Served served({.token = "the secret", .handshake_timeout = 60s});
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  FileDescriptor highest(::dup(0));
  // Room for the 64 strangers and a few members.
  const rlimit few{static_cast<rlim_t>(highest.get()) + 80, before.rlim_max};
  highest.reset();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  const Crowd crowd(served, 200, before);
  for (int i = 0; i < 5; ++i) {
    try {
      expect_still_well(served, {.token = "the secret"});
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

}  // namespace
}  // namespace unisono::store
