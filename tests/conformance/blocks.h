#pragma once

#include <numeric>

#include "../unit/kernels/oracle.h"
#include "world.h"

// The common part of the tests of the collectives on blocks of different length.
namespace conformance {

namespace oracle = unisono::oracle;

using Lengths = std::vector<std::size_t>;

inline std::size_t total(const Lengths& counts) { return std::accumulate(counts.begin(), counts.end(), std::size_t{0}); }
/// The length of this rank's block.
inline std::size_t own(const Lengths& counts) { return counts[static_cast<std::size_t>(unisono::rank())]; }
inline std::size_t before(const Lengths& counts, int rank) { return total(Lengths(counts.begin(), counts.begin() + rank)); }

/// Ways to give n ranks blocks: none, one element, ascending, gaps, one rank with all of it (each in turn), primes, and around the slot,
/// through which the blocks go in steps of their own.
inline std::vector<Lengths> uneven(int n, std::size_t element_bytes) {
  const auto ranks = static_cast<std::size_t>(n);
  const std::size_t slot = slot_bytes / element_bytes;
  std::vector<Lengths> all{Lengths(ranks, 0), Lengths(ranks, 1), Lengths(ranks, 1009)};
  const auto add = [&](auto&& length) {
    Lengths counts(ranks);
    for (std::size_t r = 0; r < ranks; ++r) counts[r] = length(r);
    all.push_back(std::move(counts));
  };
  add([](std::size_t r) { return r; });
  add([](std::size_t r) { return r == 0 ? 2 : 0; });
  add([](std::size_t r) { return r == 0 ? 300 : 1; });
  add([&](std::size_t r) { return (ranks - r) * (ranks - r); });
  add([](std::size_t r) { return r % 2 == 0 ? 0 : 37 + r; });
  for (std::size_t one = 0; one < ranks; ++one) add([&](std::size_t r) { return r == one ? 50 : 0; });
  add([](std::size_t r) { return Lengths{2, 3, 5, 7, 11, 13, 17, 19}[r % 8] * 101; });
  add([&](std::size_t r) { return slot - 64 + 17 * r; });
  add([&](std::size_t r) { return r == ranks / 2 ? (sanitized ? slot + 3 : 5 * slot + 7) : r; });
  add([&](std::size_t r) { return r == 0 ? 1 : slot / ranks + r; });
  return all;
}

/// The block of rank r of a whole in which block r holds values<T>(counts[r], r).
template <class T>
std::vector<T> blocks_of_all(const Lengths& counts) {
  std::vector<T> all;
  for (std::size_t r = 0; r < counts.size(); ++r) {
    const auto block = values<T>(counts[r], static_cast<int>(r));
    all.insert(all.end(), block.begin(), block.end());
  }
  return all;
}

inline oracle::Bytes bytes_of_all(unisono::DType dtype, const Lengths& counts) {
  oracle::Bytes all;
  for (std::size_t r = 0; r < counts.size(); ++r) {
    const auto block = oracle::values(dtype, counts[r], r);
    all.insert(all.end(), block.begin(), block.end());
  }
  return all;
}

inline unisono::TensorView line(oracle::Bytes& bytes, unisono::DType dtype) { return {bytes.data(), dtype, bytes.size() / size_of(dtype)}; }

}  // namespace conformance
