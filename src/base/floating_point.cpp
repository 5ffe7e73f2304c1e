#include "unisono/detail/floating_point.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace unisono::detail {

#if defined(__x86_64__)

namespace {

constexpr unsigned flags = 0x3f;       // which say what has happened, and change no result
constexpr unsigned at_start = 0x1f80;  // all exceptions masked, nearest, neither flush-to-zero nor denormals-are-zero
constexpr std::uint16_t x87_at_start = 0x37f;

std::uint16_t x87() noexcept {
  std::uint16_t word = 0;
  asm volatile("fnstcw %0" : "=m"(word));
  return word;
}
void set_x87(std::uint16_t word) noexcept { asm volatile("fldcw %0" : : "m"(word)); }

}  // namespace

// A change costs more than a look, and most threads have never changed anything.
FixedFloatingPoint::FixedFloatingPoint() noexcept : own_(_mm_getcsr()), own_x87_(x87()) {
  if ((own_ & ~flags) != at_start) [[unlikely]]
    _mm_setcsr(at_start);
  if (own_x87_ != x87_at_start) [[unlikely]]
    set_x87(x87_at_start);
}

FixedFloatingPoint::~FixedFloatingPoint() {
  if ((own_ & ~flags) != at_start) [[unlikely]]
    _mm_setcsr(static_cast<unsigned>(own_));
  if (own_x87_ != x87_at_start) [[unlikely]]
    set_x87(own_x87_);
}

#elif defined(__aarch64__)

FixedFloatingPoint::FixedFloatingPoint() noexcept : own_(0) {
  asm volatile("mrs %0, fpcr" : "=r"(own_));
  if (own_ != 0) [[unlikely]] {
    asm volatile("msr fpcr, xzr");
  }
}

FixedFloatingPoint::~FixedFloatingPoint() {
  if (own_ != 0) [[unlikely]] {
    asm volatile("msr fpcr, %0" : : "r"(own_));
  }
}

#else
#error "unisono does not know how this processor keeps its floating-point environment: src/base/floating_point.cpp"
#endif

}  // namespace unisono::detail
