#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <vector>

#include "engines/shm/staging.h"
#include "kernels/copy.h"
#include "kernels/reduce.h"
#include "unisono/call.h"

namespace unisono::engines::shm {

/// A half-open range of elements.
struct Range {
  std::size_t begin = 0, end = 0;
  std::size_t size() const { return end - begin; }
};

/// Cuts `total` elements into pieces of at most `most`. There is always a piece, even an empty one: a call without elements is still compared.
class Pieces {
 public:
  Pieces(std::size_t total, std::size_t most) : total_(total), most_(std::max<std::size_t>(most, 1)) {}
  /// Cuts elements of that size into pieces of at most `bytes`. The size of an element is a power of two, and a shift is faster than a division.
  static Pieces of_bytes(std::size_t total, std::size_t bytes, std::size_t element) { return {total, bytes >> std::countr_zero(element)}; }
  std::size_t count() const { return total_ <= most_ ? 1 : (total_ + most_ - 1) / most_; }
  Range operator[](std::size_t k) const { return {std::min(total_, k * most_), std::min(total_, (k + 1) * most_)}; }
  std::size_t largest() const { return std::min(total_, most_); }

 private:
  std::size_t total_, most_;
};

/// Returns the part of a piece of m elements that `rank` of n owns; parts begin at cache lines.
inline Range owned_part(std::size_t m, std::size_t element, int rank, int n) {
  const std::size_t unit = std::max<std::size_t>(64 / element, 1);
  const std::size_t units = (m + unit - 1) / unit;
  const auto ranks = static_cast<std::size_t>(n);
  const auto r = static_cast<std::size_t>(rank);
  const auto edge = [&](std::size_t i) { return std::min(m, units * i / ranks * unit); };
  return {edge(r), edge(r + 1)};
}

/// The inputs of one element range, in rank order.
class InputList {
 public:
  explicit InputList(int n) : count_(n) {
    if (n > fixed) more_.resize(static_cast<std::size_t>(n));
  }
  const void*& operator[](int i) { return data()[i]; }
  const void** data() { return count_ > fixed ? more_.data() : few_; }

 private:
  static constexpr int fixed = 16;
  int count_;
  const void* few_[fixed];
  std::vector<const void*> more_;
};

/// Computes out[i] = inputs[0][i] op inputs[1][i] op …, by the call's operation, in the order of the inputs. `out` may be one of the inputs.
inline void combine(void* out, const void* const* inputs, int fan_in, std::size_t count, const CollectiveCall& call, int divisor) {
  if (count == 0) return;
  const DType dtype = call.in.dtype();
  if (!call.custom) {
    kernels::reduce(out, inputs, static_cast<std::size_t>(fan_in), count, dtype, call.op, static_cast<std::size_t>(divisor));
    return;
  }
  std::vector<std::byte> sum(count * size_of(dtype));  // `out` may be a later input
  std::memcpy(sum.data(), inputs[0], sum.size());
  for (int i = 1; i < fan_in; ++i) call.custom->combine(sum.data(), inputs[i], count);
  std::memcpy(out, sum.data(), sum.size());
}

}  // namespace unisono::engines::shm
