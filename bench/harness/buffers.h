#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/operations.h"
#include "unisono/tensor.h"

namespace unisono::bench {

class BenchDevice;

/// Private memory, or memory of unisono's shared pool, that begins on a page and has guard bytes before and after the part in use. With a device
/// the candidates get memory of it that is laid out in the same way.
class GuardedBuffer {
 public:
  explicit GuardedBuffer(std::size_t capacity, bool shared = false, BenchDevice* device = nullptr);
  ~GuardedBuffer();
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;

  /// Returns the memory of the host.
  std::byte* data() noexcept { return data_; }
  /// Returns the memory that the candidates get: the same, or that of the device.
  std::byte* given() noexcept { return on_device_ != nullptr ? on_device_ : data_; }
  /// Copies the part in use and its guard bytes to the device, or back, and waits for the device. Without one they do nothing.
  void to_device();
  void from_device();
  /// Gives `used` bytes to the candidates and writes the guard bytes around them.
  void guard(std::size_t used) noexcept;
  bool guards_intact() const noexcept;

 private:
  std::byte* map_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t mapped_ = 0;
  bool shared_ = false;
  BenchDevice* device_ = nullptr;
  std::byte* on_device_ = nullptr;
  std::size_t used_ = 0;
};

/// Whole numbers, different for each element and rank, whose sums are exact in the dtype. They repeat after a prime number of elements, so that a
/// block in the wrong place is detected and filling costs no more than a copy.
class Pattern {
 public:
  Pattern(DType dtype, int ranks);

  /// Fills in the input of `rank`; each seed gives another.
  void fill(void* buffer, std::size_t count, int rank, std::uint64_t seed) const;
  /// Returns the first wrong element of `rank`'s output for inputs filled with this seed.
  std::optional<std::string> wrong(Operation operation, const void* out, const Shape& shape, int rank, std::uint64_t seed) const;

 private:
  using Table = std::vector<std::byte>;
  /// A part of a rank's input that comes as one block into the output.
  struct Block {
    std::size_t start = 0;
    std::size_t count = 0;
  };
  /// Returns the part of `from`'s input that goes to `to`, or that is combined for it.
  Block block_of(const OperationTraits& traits, const Shape& shape, int from, int to) const;
  Table input_table(int rank, std::uint64_t seed) const;
  /// Returns the sums of the first ranks.
  Table sum_table(int ranks, std::uint64_t seed) const;
  void store(Table& table, std::size_t index, std::int64_t value) const;
  std::int64_t value(std::size_t index, int rank, std::uint64_t seed) const noexcept;
  std::optional<std::string> compare(const std::byte* out, std::size_t count, const Table& table, std::size_t start, std::size_t offset) const;

  DType dtype_;
  std::size_t element_size_;
  int ranks_;
  std::size_t period_;
};

/// Rewrites an input with other values before each call, at the speed of a copy.
class Rewriter {
 public:
  Rewriter(DType dtype, int rank, int ranks);
  void rewrite(std::byte* buffer, std::size_t bytes) noexcept;

 private:
  std::vector<std::byte> tile_;
  std::size_t element_size_;
  std::size_t start_ = 0;
};

/// Reads every byte, as code that uses a result would.
std::uint64_t consume(const std::byte* buffer, std::size_t bytes) noexcept;
std::uint64_t hash_of(const std::byte* buffer, std::size_t bytes) noexcept;

/// Fills with numbers in [-1, 1), for sums of arbitrary reals; float32 and float64 only.
void fill_reals(DType dtype, void* buffer, std::size_t count, int rank, std::uint64_t seed);
/// Compares with the sum in float64; the difference may be at most ranks × epsilon × Σ|x|.
std::optional<std::string> wrong_real_sum(DType dtype, const void* out, std::size_t count, int ranks, std::uint64_t seed);

}  // namespace unisono::bench
