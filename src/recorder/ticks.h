#pragma once

#include <chrono>
#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace unisono::recorder {

/// Returns true where the processor has a counter that runs at one rate on all cores, in all states of sleep.
inline bool has_steady_counter() noexcept {
#if defined(__x86_64__)
  constexpr unsigned power_leaf = 0x80000007, is_invariant = 1U << 8;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(power_leaf, &a, &b, &c, &d) != 0 && (d & is_invariant) != 0;
#elif defined(__aarch64__)
  return true;
#else
  return false;
#endif
}

inline std::uint64_t steady_ns() noexcept {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count());
}

/// Returns the processor's counter, which takes a third of the time of the system's clock. Only where has_steady_counter.
inline std::uint64_t counter() noexcept {
#if defined(__x86_64__)
  // The header of intrinsics would cost each source a second of the compiler. It would also undo -O1 beside a precompiled header made with -O3.
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  std::uint64_t ticks;
  asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
  return steady_ns();
#endif
}

}  // namespace unisono::recorder
