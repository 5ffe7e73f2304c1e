#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "coordination/group_topology.h"
#include "schedule/algorithm.h"

namespace unisono::schedule::testing {

/// The blocks of an operation with counts.
enum class Blocks : std::uint8_t { even, uneven };
/// How the two buffers of a call lie. Where an operation cannot have `shared`, it is the same as `apart`.
enum class Buffers : std::uint8_t {
  apart,
  shared,  ///< the same memory, or the own block of the longer buffer
};

/// A call of all ranks: the problem of each, and what each gets by definition of the operation.
struct Case {
  Operation operation = Operation::all_reduce;
  int size = 1;
  std::size_t count = 0;  ///< of the vector, or of a block
  int root = 0;
  ReduceOp op = ReduceOp::sum;
  DType dtype = DType::float32;
  Blocks blocks = Blocks::even;
  Buffers buffers = Buffers::apart;
  bool is_custom = false;
  bool has_channels = true;     ///< else there is nothing but an all_to_all_v of all ranks
  std::vector<int> hosts = {};  ///< of each rank; empty: there is one level

  std::string name() const;
  Problem problem(int rank) const;
  /// The places of the two buffers in a rank's memory, and their end.
  struct Places {
    std::size_t input, output, end;
  };
  Places places(const Problem& problem) const;
  std::vector<coordination::GroupTopology> topologies() const;
  /// Returns the number of elements that a rank sends to another in an all_to_all_v.
  std::size_t sent(int from, int to) const;
  Counts counts() const;

  /// An element of a rank's output: of a moving operation the element of a rank's input, of a reduction the elements of the ranks below `ranks`.
  struct Expected {
    bool is_written;
    int source, ranks;
    std::size_t element;
  };
  std::vector<Expected> expected(int rank) const;
};

}  // namespace unisono::schedule::testing
