#include <algorithm>
#include <cstring>
#include <fstream>

#include "covers.h"
#include "world.h"

using namespace unisono;

namespace {

// GiB that programs may still take.
double available_memory() {
  std::ifstream file("/proc/meminfo");
  for (std::string word; file >> word;) {
    if (word != "MemAvailable:") continue;
    double kib = 0;
    file >> kib;
    return kib / (1 << 20);
  }
  return 0;
}

// More bytes than 31 bits can count, once.
TEST(Large, AllReduceTakesMoreThanTwoGiB) {
  COVERS("W-02");
  if (available_memory() < 12) GTEST_SKIP() << "needs 12 GiB of free memory, here are " << available_memory();
  // Tiles of an odd length, each with its number in front.
  constexpr std::size_t tile = (std::size_t{1} << 20) + 3;
  constexpr std::size_t count = (std::size_t{1} << 31) + 100003;
  const auto for_each_tile = [&](auto&& element, auto&& use) {
    std::vector<std::uint8_t> memory(tile);
    for (std::size_t i = 0; i < tile; ++i) memory[i] = element(i);
    for (std::size_t begin = 0; begin < count; begin += tile) {
      for (std::size_t i = 0; i < 8; ++i) memory[i] = element((begin / tile >> (8 * i)) & 0xff);
      use(begin, memory.data(), std::min(tile, count - begin));
    }
  };
  run_threads(2, [&] {
    const auto factor = static_cast<std::size_t>(rank()) + 1;
    std::vector<std::uint8_t> x(count);
    for_each_tile([&](std::size_t i) { return static_cast<std::uint8_t>(i * factor); },
                  [&](std::size_t begin, const std::uint8_t* from, std::size_t n) { std::memcpy(x.data() + begin, from, n); });
    all_reduce(x);
    std::size_t wrong = 0;
    for_each_tile([](std::size_t i) { return static_cast<std::uint8_t>(i * 3); },
                  [&](std::size_t begin, const std::uint8_t* from, std::size_t n) { wrong += std::memcmp(x.data() + begin, from, n) != 0 ? 1 : 0; });
    EXPECT_EQ(wrong, 0U);
  });
}

}  // namespace
