#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "unisono/unisono.h"

// What the controllers of these tests call on their workers.

namespace unisono::testing {

struct Reading {
  std::string place;
  std::vector<double> values;
  UNISONO_FIELDS(place, values)
};

int add(int a, int b);
void do_nothing();
int own_rank();
int sum_of_ranks();
std::string joined(const std::map<std::string, int>& counts, std::string_view between);
Reading doubled(Reading reading);
std::vector<float> scaled(std::vector<float> values, float factor);
double sum_of(std::span<const double> values);
std::uintptr_t address_of(const std::vector<float>& values);
int throws_out_of_range(int a, const std::string& text);
int throws_invalid_argument(int a);
std::vector<float> large(std::size_t elements);
int worker_in_call();
int sum_with_controller(int own);
/// Has rank 1 call something else than the others; returns the text of the error.
std::string own_mismatch();
/// Returns when the controller has called open_gate, or another worker has.
void wait_for_gate(const std::string& path);

class Counter {
 public:
  explicit Counter(int start);
  ~Counter();
  int add(int n);
  int value() const;
  void fail();
  /// The number of objects in this process.
  static int alive();

 private:
  int value_;
};
int counters_alive();

/// Notes what rank() is when it ends.
class Witness {
 public:
  Witness() = default;
  ~Witness();
  Witness(const Witness&) = delete;
  Witness& operator=(const Witness&) = delete;
  int own_rank() const;
  static int rank_at_last_end();
};

/// Runs a controller in rank 0 of so many threads.
template <class F>
void with_workers(int workers, F&& body, ControllerOptions options = {}) {
  run_threads(workers + 1, [&] {
    const Controller controller(options);
    EXPECT_EQ(rank(), 0) << "a worker came back from its constructor";
    body(controller);
  });
}

}  // namespace unisono::testing
