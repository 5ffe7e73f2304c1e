#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

/// An image: 8 x 8 grey values scaled to 0..1, row by row, and the digit it shows.
struct Digit {
  std::array<float, 64> pixels;
  int label;
};

/// Throws std::runtime_error, naming file and line, where the file is malformed.
std::vector<Digit> read_digits(const std::filesystem::path& file);

/// Shuffles in the same order for the same seed on every machine, so that ranks agree on it without communication.
class Shuffler {
 public:
  explicit Shuffler(std::uint64_t seed) : state_(seed) {}

  template <class T>
  void shuffle(std::vector<T>& items) {
    for (std::size_t left = items.size(); left > 1; --left) std::swap(items[left - 1], items[below(left)]);
  }
  /// Returns a number uniform in [0, 1).
  float uniform() { return static_cast<float>(next() >> 40) * 0x1.0p-24f; }

 private:
  std::uint64_t next();
  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(next() % bound); }

  std::uint64_t state_;
};

/// The part of `count` items that belongs to `rank`. The parts are consecutive, cover all items, and differ in size by one at most.
struct Share {
  std::size_t begin, end;
};
Share share_of(std::size_t count, int rank, int ranks);
