#pragma once

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "base/deadline.h"
#include "unisono/engine.h"

// A rank of the tests of the mpi plug-in's engine, and the checks that it makes. A check throws where the engine does something else.
namespace engine_rank {

using namespace unisono;

inline int number(std::initializer_list<const char*> names, int otherwise) {
  for (const char* const name : names) {
    if (const char* const text = std::getenv(name)) return std::atoi(text);
  }
  return otherwise;
}

struct Rank {
  int rank = number({"TEST_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "RANK"}, 0);
  int size = number({"TEST_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "WORLD_SIZE"}, 1);
  std::shared_ptr<Store> store;
  const Plugin* plugin = nullptr;

  EngineOptions options(const std::string& key, std::vector<int> members) const {
    EngineOptions options;
    options.group_name = key;
    options.key = key;
    options.global_ranks = members;
    options.rank = static_cast<int>(std::find(members.begin(), members.end(), rank) - members.begin());
    options.hosts.assign(members.size(), 0);
    options.local_rank = rank;
    options.address = "127.0.0.1";
    options.store = std::make_shared<PrefixStore>(key, store);
    options.timeout = std::chrono::seconds(30);
    return options;
  }
  std::vector<int> all() const {
    std::vector<int> ranks(static_cast<std::size_t>(size));
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
  }
};

[[noreturn]] inline void fail(const std::string& text) { throw std::logic_error(text); }

inline void wait(Task& task) {
  const base::Deadline deadline(std::chrono::seconds(30));
  while (!task.advance()) {
    if (deadline.passed()) fail("a task does not end");
    std::this_thread::yield();
  }
}

enum class Form { run, start };
inline void carry_out(Engine& engine, const CollectiveCall& call, Form form) {
  if (!engine.offers(call)) fail(fmt::format("{} is not offered", to_string(call.operation)));
  if (form == Form::run && engine.blocks()) return engine.run(call);
  wait(*engine.start(call));
}

template <class T>
TensorView view(std::vector<T>& values) {
  if constexpr (std::is_same_v<T, unsigned char>) return {values.data(), DType::uint8, values.size()};
  else return {values.data(), dtype_of<T>::value, values.size()};
}

template <class T>
void expect(const std::vector<T>& got, const std::vector<T>& expected, const std::string& what) {
  if (got.size() == expected.size() && std::memcmp(got.data(), expected.data(), got.size() * sizeof(T)) == 0) return;
  for (std::size_t i = 0; i < got.size() && i < expected.size(); ++i) {
    if (std::memcmp(&got[i], &expected[i], sizeof(T)) != 0)
      fail(fmt::format("{}: element {} is {}, and should be {}", what, i, static_cast<double>(got[i]), static_cast<double>(expected[i])));
  }
  fail(what + ": the length");
}

/// Small whole numbers, another for every rank and element: their sums and products are exact in every type.
template <class T>
std::vector<T> given(int rank, std::size_t n, std::size_t from = 0) {
  std::vector<T> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<T>(static_cast<float>((3 * static_cast<std::size_t>(rank) + 7 * (from + i)) % 5 + 1));
  return values;
}

/// Every reduction of small whole numbers, of several types, with every operation.
void check_reductions(Engine& engine, int rank, int size, Form form);

/// A NaN of any sign and payload on any rank is the same NaN on all of them.
void check_nan(Engine& engine, int rank, int size, Form form);

/// Every operation that moves data: n elements of each rank, and blocks of different length.
void check_moves(Engine& engine, int rank, int size, std::size_t n, Form form);

/// Messages of several lengths between all ranks, on several channels, in the order of each channel.
void check_messages(Engine& engine, int rank, int size);

}  // namespace engine_rank
