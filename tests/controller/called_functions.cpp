#include "called_functions.h"

#include <atomic>
#include <filesystem>
#include <numeric>
#include <stdexcept>
#include <thread>

namespace unisono::testing {
namespace {
std::atomic<int> counters{0};
std::atomic<int> last_rank{-1};
}  // namespace

int add(int a, int b) { return a + b; }
void do_nothing() {}
int own_rank() { return rank(); }
std::string own_mismatch() {
  try {
    if (rank() == 1) barrier();
    else static_cast<void>(all_reduce(1));
  } catch (const Mismatch& error) {
    return error.what();
  }
  return {};
}
int sum_of_ranks() { return all_reduce(rank()) * 10 + world_size(); }
std::string joined(const std::map<std::string, int>& counts, std::string_view between) {
  std::string text;
  for (const auto& [word, count] : counts) text += (text.empty() ? "" : std::string(between)) + word + "=" + std::to_string(count);
  return text;
}
Reading doubled(Reading reading) {
  for (double& value : reading.values) value *= 2;
  return reading;
}
std::vector<float> scaled(std::vector<float> values, float factor) {
  for (float& value : values) value *= factor;
  return values;
}
double sum_of(std::span<const double> values) { return std::accumulate(values.begin(), values.end(), 0.0); }
std::uintptr_t address_of(const std::vector<float>& values) { return reinterpret_cast<std::uintptr_t>(values.data()); }
int throws_out_of_range(int a, const std::string& text) { throw std::out_of_range(text + " " + std::to_string(a)); }
int throws_invalid_argument(int a) { throw InvalidArgument("seven is too many", {.operation = "throws", .culprit = a}); }
std::vector<float> large(std::size_t elements) { return std::vector<float>(elements, 1.5F); }
int worker_in_call() { return detail::worker_number(); }
int sum_with_controller(int own) { return all_reduce(own, ReduceOp::sum, Controller::everyone()); }
void wait_for_gate(const std::string& path) {
  while (!std::filesystem::exists(path)) std::this_thread::yield();
}

Counter::Counter(int start) : value_(start) {
  if (start < 0) throw std::domain_error("a counter does not start below 0");
  ++counters;
}
Counter::~Counter() { --counters; }
int Counter::add(int n) { return value_ += n; }
int Counter::value() const { return value_; }
void Counter::fail() { throw std::logic_error("a counter has failed"); }
int Counter::alive() { return counters.load(); }
Witness::~Witness() { last_rank.store(rank()); }
int Witness::own_rank() const { return rank(); }
int Witness::rank_at_last_end() { return last_rank.load(); }
int counters_alive() { return Counter::alive(); }

UNISONO_REMOTE(add)
UNISONO_REMOTE(do_nothing);
UNISONO_REMOTE(own_rank);
UNISONO_REMOTE(own_mismatch);
UNISONO_REMOTE(sum_of_ranks);
UNISONO_REMOTE(joined);
UNISONO_REMOTE(doubled);
UNISONO_REMOTE(scaled);
UNISONO_REMOTE(sum_of);
UNISONO_REMOTE(address_of);
UNISONO_REMOTE(throws_out_of_range);
UNISONO_REMOTE(throws_invalid_argument);
UNISONO_REMOTE(large);
UNISONO_REMOTE(worker_in_call);
UNISONO_REMOTE(sum_with_controller);
UNISONO_REMOTE(wait_for_gate);
UNISONO_REMOTE(counters_alive);
UNISONO_ACTOR(Counter, &Counter::add, &Counter::value, &Counter::fail)
UNISONO_ACTOR(Witness, &Witness::own_rank)

}  // namespace unisono::testing
