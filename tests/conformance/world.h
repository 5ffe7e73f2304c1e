#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "thrown_by.h"
#include "unisono/unisono.h"

// Every test runs in every kind of world. Started alone, a program runs each test in the world of a process that was not launched, and
// then once for each of several numbers of ranks that are threads. Started by `unisono run`, its processes are the ranks and run all tests together.
namespace conformance {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

struct Worlds {
  int at_least = 1;
  int at_most = 8;
  bool poisons = false;       ///< the world is over afterwards: the next test gets a new one
  bool threads_only = false;  ///< the ranks of the test share variables
};

/// Runs `body` on every rank of every such world, and then a barrier: whatever the test was, the world still works, unless it was poisoned.
void on_every_world(const Worlds& worlds, const std::function<void()>& body);

/// Whether this program's processes are the ranks.
bool launched();
/// Whether the ranks of this host present themselves as processes of several.
bool presents_hosts();
/// Whether UNISONO_BACKEND names the engine that this run is of.
bool on_an_engine();
/// The result of rank() in main before the program had initialized: "0", or the name of its exception.
const std::string& rank_before_initialize();

/// The slot of a rank in shared memory: what goes through it takes one step.
inline constexpr std::size_t slot_bytes = std::size_t{128} << 10;

/// Lengths around everything that an algorithm may stumble over, for elements of that size.
std::vector<std::size_t> interesting_counts(std::size_t element_bytes);

/// Element i of rank r, different from every other; sums of eight ranks are exact in float.
template <class T>
T value(int r, std::size_t i) {
  return static_cast<T>(8 * i + static_cast<std::size_t>(r) + 1);
}
template <class T>
std::vector<T> values(std::size_t n, int r) {
  std::vector<T> x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = value<T>(r, i);
  return x;
}
/// The sum of values over the first n ranks.
template <class T>
std::vector<T> sums(std::size_t count, int n) {
  std::vector<T> x(count);
  const auto ranks = static_cast<std::size_t>(n);
  for (std::size_t i = 0; i < count; ++i) x[i] = static_cast<T>(8 * i * ranks + ranks * (ranks + 1) / 2);
  return x;
}

/// The first element in which they differ, or "".
template <class A, class B>
std::string difference(const A& actual, const B& expected) {
  if (std::size(actual) != std::size(expected)) {
    return "length " + std::to_string(std::size(actual)) + " instead of " + std::to_string(std::size(expected));
  }
  for (std::size_t i = 0; i < std::size(actual); ++i) {
    if (!(actual[i] == expected[i])) return "element " + std::to_string(i) + " of " + std::to_string(std::size(actual)) + " is wrong";
  }
  return {};
}

/// The group is sound: everybody's next call gives what it should.
void expect_usable(const unisono::ProcessGroup& group = unisono::world());

using unisono::thrown_by;

/// The culprit must be `odd` on all ranks, where it alone has called something else; between two ranks there is none.
void expect_culprit(const unisono::Mismatch& error, int odd);

}  // namespace conformance

#define WORLD_TEST_IN(worlds, suite, name)                                   \
  static void suite##_##name();                                              \
  TEST(suite, name) { conformance::on_every_world(worlds, suite##_##name); } \
  static void suite##_##name()

/// A test whose body every rank runs.
#define WORLD_TEST(suite, name) WORLD_TEST_IN((conformance::Worlds{}), suite, name)
/// The same, where nobody is alone.
#define MANY_TEST(suite, name) WORLD_TEST_IN((conformance::Worlds{.at_least = 2}), suite, name)
