#pragma once

#include <span>
#include <vector>

#include "blocks.h"

namespace conformance {

using unisono::dtype_of;
using unisono::TensorView;
using unisono::world_size;

/// Several buffers of this rank: tensor j of rank k is participant k * len + j, and gives that one's values.
template <class T>
struct List {
  List(std::size_t len, std::size_t count, T fill) : memory(len, std::vector<T>(count, fill)) { view(); }
  List(std::size_t len, std::size_t count, int rank = unisono::rank()) {
    for (std::size_t j = 0; j < len; ++j) {
      std::vector<T> x(count);
      for (std::size_t i = 0; i < count; ++i) x[i] = participant(rank, len, j, i);
      memory.push_back(std::move(x));
    }
    view();
  }
  static T participant(int rank, std::size_t len, std::size_t j, std::size_t i) {
    return static_cast<T>(64 * i + static_cast<std::size_t>(rank) * len + j + 1);
  }
  void view() {
    for (auto& x : memory) tensors.emplace_back(x.data(), dtype_of<T>::value, x.size());
  }
  std::vector<std::vector<T>> memory;
  std::vector<TensorView> tensors;
  operator std::span<const TensorView>() const { return tensors; }
};

template <class T>
std::vector<T> sum_of_all(std::size_t len, std::size_t count) {
  std::vector<T> sum(count);
  for (std::size_t i = 0; i < count; ++i) {
    for (int r = 0; r < world_size(); ++r) {
      for (std::size_t j = 0; j < len; ++j) sum[i] = static_cast<T>(sum[i] + List<T>::participant(r, len, j, i));
    }
  }
  return sum;
}

inline std::vector<std::size_t> some_counts() { return {0, 1, 7, 1009, sanitized ? 2000 : slot_bytes / 8 + 3}; }

}  // namespace conformance
