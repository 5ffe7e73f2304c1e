#pragma once

namespace unisono::base {

/// Tells the processor that this thread looks at a word again and again, so that the core's other thread gets more of it.
inline void relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

}  // namespace unisono::base
