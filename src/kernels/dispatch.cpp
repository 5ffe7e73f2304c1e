#include "kernels/dispatch.h"

#include <initializer_list>
#include <string>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/environment.h"

namespace unisono::kernels {
namespace {

#if defined(__x86_64__)

struct Registers {
  unsigned a = 0, b = 0, c = 0, d = 0;
};

Registers cpuid(unsigned leaf) {
  Registers r;
  // Where there is no such leaf, all registers stay 0: no feature.
  static_cast<void>(__get_cpuid_count(leaf, 0, &r.a, &r.b, &r.c, &r.d));
  return r;
}

bool has(unsigned features, std::initializer_list<unsigned> bits) {
  for (const unsigned bit : bits)
    if ((features >> bit & 1U) == 0) return false;
  return true;
}

/// Returns the register sets that the system saves when it switches threads (XCR0); without them wide instructions are illegal.
unsigned saved_registers() {
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

// The bits are those of the processors' manuals, in this order: what the compiler may use in Highway's code for the set.
std::int64_t present_targets() {
  std::int64_t targets = HWY_STATIC_TARGET;
  const Registers basic = cpuid(1), extended = cpuid(7), amd = cpuid(0x80000001U);
  if (!has(basic.c, {9 /* ssse3 */})) return targets;
  targets |= HWY_SSSE3;
  if (!has(basic.c, {19 /* sse4.1 */, 20 /* sse4.2 */, 1 /* pclmul */, 25 /* aes */})) return targets;
  targets |= HWY_SSE4;
  if (!has(basic.c, {27 /* osxsave */, 28 /* avx */, 12 /* fma */, 29 /* f16c */}) || !has(saved_registers(), {1, 2})) return targets;
  if (!has(extended.b, {5 /* avx2 */, 3 /* bmi */, 8 /* bmi2 */}) || !has(amd.c, {5 /* lzcnt */})) return targets;
  targets |= HWY_AVX2;
  if (!has(extended.b, {16 /* avx512f */, 17 /* dq */, 28 /* cd */, 30 /* bw */, 31 /* vl */}) || !has(saved_registers(), {5, 6, 7})) return targets;
  targets |= HWY_AVX3;
  if (has(extended.c, {1 /* vbmi */, 6 /* vbmi2 */, 9 /* vaes */, 10 /* vpclmulqdq */, 11 /* vnni */, 12 /* bitalg */, 14 /* vpopcntdq */}))
    targets |= HWY_AVX3_DL;
  return targets;
}

#else

std::int64_t present_targets() { return HWY_STATIC_TARGET; }

#endif

/// Returns the bits below that of the set with this name: those that are better. Another name leaves out none.
std::int64_t better_than(const std::string& name) {
  constexpr int bits = 63;
  for (int bit = 0; bit < bits; ++bit) {
    const std::int64_t target = std::int64_t{1} << bit;
    if (name == hwy::TargetName(target)) return target - 1;
  }
  return 0;
}

}  // namespace

std::int64_t usable_targets() {
  const std::int64_t present = present_targets() | HWY_SCALAR;
  const auto cap = base::Environment::process().get("UNISONO_INSTRUCTION_SET");
  return cap ? present & ~better_than(*cap) : present;
}

void use_targets(std::int64_t targets) { chosen_target.Update(targets == 0 ? usable_targets() : targets); }

}  // namespace unisono::kernels
