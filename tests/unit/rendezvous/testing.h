#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "free_port.h"
#include "unit/temporary_file.h"
#include "base/socket.h"
#include "rendezvous/rendezvous.h"
#include "unisono/error.h"

// The common part of the tests of the rendezvous: ranks that are threads, each with an environment of its own.
namespace unisono::rendezvous {

using namespace std::chrono_literals;
using base::Environment;
using Variables = std::map<std::string, std::string, std::less<>>;

/// The outcome of one rank: an identity or an error.
struct Outcome {
  std::optional<JobIdentity> identity;
  std::exception_ptr error;

  template <class E>
  std::string text() const {
    try {
      if (error) std::rethrow_exception(error);
    } catch (const E& e) {
      return e.what();
    } catch (const std::exception& e) {
      ADD_FAILURE() << "another error: " << e.what();
      return {};
    }
    ADD_FAILURE() << "no error";
    return {};
  }
  const JobIdentity& get() const {
    if (error) std::rethrow_exception(error);
    return *identity;
  }
};

inline Outcome attempt(JobRequest request, const Environment& environment = {}) {
  Outcome outcome;
  try {
    outcome.identity = meet(request, environment);
  } catch (...) {
    outcome.error = std::current_exception();
  }
  return outcome;
}

/// A thread that ends with its scope, and whose exception is a failure of the test.
template <class F>
std::jthread in_background(F body) {
  return std::jthread([body = std::move(body)] {
    try {
      body();
    } catch (const std::exception& error) {
      ADD_FAILURE() << "a thread of the test threw: " << error.what();
    }
  });
}

/// All of them at once, as threads.
inline std::vector<Outcome> together(std::size_t n, const std::function<Outcome(int)>& rank) {
  std::vector<Outcome> outcomes(n);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < n; ++i) threads.emplace_back([&, i] { outcomes[i] = rank(static_cast<int>(i)); });
  }
  return outcomes;
}

inline std::size_t open_descriptors() {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator()));
}

inline ::testing::AssertionResult says(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "\"" << text << "\" does not say \"" << part << "\"";
}
#define EXPECT_CONTAINS(text, part) EXPECT_TRUE(says(text, part))

inline Variables job_variables(int rank, int world_size, int port) {
  return {{"RANK", fmt::format("{}", rank)},
          {"WORLD_SIZE", fmt::format("{}", world_size)},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", fmt::format("{}", port)}};
}

inline Variables with(Variables variables, const std::string& name, const std::string& value) {
  variables[name] = value;
  return variables;
}
inline Variables without(Variables variables, const std::string& name) {
  variables.erase(name);
  return variables;
}

/// The ranks are who they should be, know each other, and share a store.
inline void expect_a_job(const std::vector<Outcome>& outcomes, int world_size) {
  std::set<int> ranks;
  for (const Outcome& outcome : outcomes) {
    const JobIdentity& identity = outcome.get();
    ranks.insert(identity.rank);
    EXPECT_EQ(identity.world_size, world_size);
    ASSERT_EQ(identity.members.size(), static_cast<std::size_t>(world_size));
    for (int r = 0; r < world_size; ++r) EXPECT_EQ(identity.members[static_cast<std::size_t>(r)].rank, r);
    EXPECT_EQ(identity.members[0].pid, ::getpid());
    identity.store->set(fmt::format("from {}", identity.rank), fmt::format("{}", identity.rank * 11 + 1));
  }
  EXPECT_EQ(ranks.size(), static_cast<std::size_t>(world_size));
  for (const Outcome& outcome : outcomes) {
    for (int r = 0; r < world_size; ++r) EXPECT_EQ(outcome.get().store->get(fmt::format("from {}", r), 20s), fmt::format("{}", r * 11 + 1));
  }
}

}  // namespace unisono::rendezvous
