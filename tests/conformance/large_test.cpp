#include <fstream>
#include <limits>

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

// W-02: more bytes than 31 bits can count, once.
TEST(Large, AllReduceOfMoreThanTwoGiB) {
  if (available_memory() < 12) GTEST_SKIP() << "needs 12 GiB of free memory, here are " << available_memory();
  constexpr std::size_t count = (std::size_t{1} << 31) + 100003;
  const auto own = [](int r, std::size_t i) { return static_cast<std::uint8_t>((i * 7 + (i >> 20)) * static_cast<std::size_t>(r + 1)); };
  run_threads(2, [&] {
    std::vector<std::uint8_t> x(count);
    for (std::size_t i = 0; i < count; ++i) x[i] = own(rank(), i);
    all_reduce(x);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < count; ++i) wrong += x[i] != static_cast<std::uint8_t>(own(0, i) + own(1, i)) ? 1 : 0;
    EXPECT_EQ(wrong, 0U);
  });
}

}  // namespace
