#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engines/shm/engine.h"
#include "engines/shm/direct_access.h"
#include "unisono/shared_memory.h"

// Two ranks of one segment in one thread, for the tests of buffers that other ranks read where they lie.
namespace two_engines {

using unisono::CollectiveCall;
using unisono::DType;
using unisono::Operation;
using unisono::Task;
using unisono::TensorView;
using unisono::engines::shm::DirectAccess;
using unisono::engines::shm::Lockstep;
using unisono::engines::shm::make_collective;
using unisono::engines::shm::Segment;

inline constexpr std::uint32_t step = 3;
inline constexpr std::size_t n = 20'000;  // elements of a large call
using Elements = unisono::shared_vector<float>;

struct TwoRanks {
  std::shared_ptr<std::byte> memory = unisono::engines::shm::private_memory(Segment::size_for({.ranks = 2}));
  std::shared_ptr<Segment> segment = std::make_shared<Segment>(Segment::Shape{.ranks = 2}, memory.get(), memory);

  /// A step of a call in which both announce.
  void call(std::array<DirectAccess, 2>& ranks, const CollectiveCall& first, const CollectiveCall& second) const {
    segment->line(0, step).announce(ranks[0].announce(first));
    segment->line(1, step).announce(ranks[1].announce(second));
    for (auto& rank : ranks) rank.note(step);
  }
};

template <class Vector>
CollectiveCall call_of(Operation operation, Vector& in, Vector& out, std::size_t count) {
  CollectiveCall call;
  call.operation = operation;
  call.in = TensorView(in.data(), DType::float32, in.size());
  call.out = TensorView(out.data(), DType::float32, out.size());
  call.count = count;
  if (operation == Operation::scatter || operation == Operation::broadcast) call.root = 0;
  return call;
}

/// A process that has ended and been waited for.
inline int ended_process() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  int status = 0;
  ::waitpid(child, &status, 0);
  return child;
}

/// Advances two ranks' tasks of one call in turn until neither goes on.
inline std::array<bool, 2> advance_both(Task& first, Task& second) {
  std::array<bool, 2> done{false, false};
  for (int i = 0; i < 10; ++i) {
    done[0] = done[0] || first.advance();
    done[1] = done[1] || second.advance();
  }
  return done;
}

/// Two engines that take every large call on buffers in the shared pool directly.
struct TwoEngines : TwoRanks {
  /// `streams_from`: of Lockstep.
  explicit TwoEngines(std::size_t streams_from = unisono::engines::shm::streams_from())
      : first(segment, 0, false, streams_from), second(segment, 1, false, streams_from) {}
  Lockstep first, second;
  Elements in = Elements(n, 1.0F), out = Elements(2 * n), in2 = Elements(n, 2.0F), out2 = Elements(2 * n);

  std::array<bool, 2> gather_all() {
    const auto a = make_collective(first, call_of(Operation::all_gather, in, out, n));
    const auto b = make_collective(second, call_of(Operation::all_gather, in2, out2, n));
    return advance_both(*a, *b);
  }
  /// Until both know that they reach each other's pools.
  void get_ready() {
    for (int i = 0; i < 2; ++i) ASSERT_EQ(gather_all(), (std::array{true, true}));
    ASSERT_TRUE(first.direct().begins(call_of(Operation::all_gather, in, out, n)));
  }
};

}  // namespace two_engines
