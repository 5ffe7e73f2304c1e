// Implements MT19937-64 of M. Matsumoto and T. Nishimura. The state has 312 words; each call tempers one of them, and after 312 calls all of them are
// computed anew from each other.

#include <cstddef>
#include <cstdint>

#include "unisono/sampler.h"

namespace unisono {
namespace {

constexpr std::size_t words = 312, middle = 156;
constexpr std::uint64_t lower_bits = 0x7fffffffU;  // the lower 31 bits

std::uint64_t twist(std::uint64_t upper, std::uint64_t lower) noexcept {
  const std::uint64_t joined = (upper & ~lower_bits) | (lower & lower_bits);
  return (joined >> 1) ^ ((joined & 1U) != 0 ? 0xb5026f5aa96619e9U : 0U);
}

}  // namespace

SamplerEngine::SamplerEngine(std::uint64_t seed) noexcept : state_(), next_(words) {
  state_[0] = seed;
  for (std::size_t i = 1; i < words; ++i) state_[i] = 6364136223846793005U * (state_[i - 1] ^ (state_[i - 1] >> 62)) + i;
}

void SamplerEngine::refill() noexcept {
  for (std::size_t i = 0; i < words; ++i) state_[i] = state_[(i + middle) % words] ^ twist(state_[i], state_[(i + 1) % words]);
  next_ = 0;
}

std::uint64_t SamplerEngine::operator()() noexcept {
  if (next_ == words) refill();
  std::uint64_t x = state_[next_++];
  x ^= (x >> 29) & 0x5555555555555555U;
  x ^= (x << 17) & 0x71d67fffeda60000U;
  x ^= (x << 37) & 0xfff7eee000000000U;
  return x ^ (x >> 43);
}

}  // namespace unisono
