#include "kernels/copy.h"

#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "kernels/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/copy.cpp"
#include "hwy/foreach_target.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "kernels/dispatch.h"

HWY_BEFORE_NAMESPACE();
namespace unisono::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

struct Cached {
  template <class D>
  static HWY_INLINE void store(D d, hn::Vec<D> v, std::uint8_t* to) {
    hn::Store(v, d, to);
  }
};

struct Streamed {
  template <class D>
  static HWY_INLINE void store(D d, hn::Vec<D> v, std::uint8_t* to) {
    hn::Stream(v, d, to);
  }
};

// Makes aligned stores between an unaligned first and last vector, which may overlap them. There must be at least two vectors of bytes.
template <class StoreKind>
void copy_vectors(std::uint8_t* to, const std::uint8_t* from, std::size_t bytes) {
  const hn::ScalableTag<std::uint8_t> d;
  const std::size_t n = hn::Lanes(d);
  hn::StoreU(hn::LoadU(d, from), d, to);
  hn::StoreU(hn::LoadU(d, from + bytes - n), d, to + bytes - n);
  std::size_t at = n - reinterpret_cast<std::uintptr_t>(to) % n;
  for (; bytes - at >= 4 * n; at += 4 * n) {
    const auto v0 = hn::LoadU(d, from + at);
    const auto v1 = hn::LoadU(d, from + at + n);
    const auto v2 = hn::LoadU(d, from + at + 2 * n);
    const auto v3 = hn::LoadU(d, from + at + 3 * n);
    StoreKind::store(d, v0, to + at);
    StoreKind::store(d, v1, to + at + n);
    StoreKind::store(d, v2, to + at + 2 * n);
    StoreKind::store(d, v3, to + at + 3 * n);
  }
  for (; bytes - at >= n; at += n) StoreKind::store(d, hn::LoadU(d, from + at), to + at);
}

void copy_cached(std::uint8_t* to, const std::uint8_t* from, std::size_t bytes) {
#if HWY_TARGET == HWY_SCALAR
  std::memcpy(to, from, bytes);  // a vector of one byte gains nothing
#else
  copy_vectors<Cached>(to, from, bytes);
#endif
}

void copy_streamed(std::uint8_t* to, const std::uint8_t* from, std::size_t bytes) {
#if HWY_TARGET == HWY_SCALAR
  std::memcpy(to, from, bytes);
#else
  copy_vectors<Streamed>(to, from, bytes);
  hwy::FlushStream();
#endif
}

}  // namespace unisono::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace unisono::kernels {
namespace {

UNISONO_FOR_TARGETS(copy_cached);
UNISONO_FOR_TARGETS(copy_streamed);

// libc is as fast for shorter copies and has less to decide.
constexpr std::size_t vectors_from = 2 << 10;

// the sanitizers do not see the memory that `rep movsb` uses
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

// `rep movsb` does not fetch the lines that it overwrites, which helps where another core holds them. It is faster from about this size on.
constexpr std::size_t string_move_from = 32 << 10;

// CPUID leaf 7, register EDX: fast short `rep movsb` (FSRM).
constexpr unsigned features_leaf = 7, fast_short_move_bit = 1U << 4;

bool has_fast_string_move() noexcept {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid_count(features_leaf, 0, &a, &b, &c, &d) != 0 && (d & fast_short_move_bit) != 0;
}

// Returns false also where the destination lies less than a line above the source, modulo a page: there some cores move a few bytes at a time (6 GB/s
// instead of 100).
bool string_move_pays(const void* to, const void* from, std::size_t bytes) noexcept {
  constexpr std::uintptr_t page = 4096, line = 64;
  static const bool fast = has_fast_string_move();
  if (!fast || bytes < string_move_from) return false;
  const auto distance = (reinterpret_cast<std::uintptr_t>(to) - reinterpret_cast<std::uintptr_t>(from)) % page;
  return distance == 0 || distance >= line;
}

void string_move(void* to, const void* from, std::size_t bytes) noexcept {
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}

#else

bool string_move_pays(const void*, const void*, std::size_t) noexcept { return false; }
void string_move(void* to, const void* from, std::size_t bytes) noexcept { std::memcpy(to, from, bytes); }

#endif

}  // namespace

void copy(void* to, const void* from, std::size_t bytes) noexcept {
  if (to == from || bytes == 0) return;
  if (bytes < vectors_from) {
    std::memcpy(to, from, bytes);
  } else if (string_move_pays(to, from, bytes)) {
    string_move(to, from, bytes);
  } else {
    UNISONO_ON_TARGET(copy_cached)(static_cast<std::uint8_t*>(to), static_cast<const std::uint8_t*>(from), bytes);
  }
}

void copy_streaming(void* to, const void* from, std::size_t bytes) noexcept {
  if (to == from || bytes == 0) return;
  if (bytes < vectors_from) {
    std::memcpy(to, from, bytes);
  } else {
    UNISONO_ON_TARGET(copy_streamed)(static_cast<std::uint8_t*>(to), static_cast<const std::uint8_t*>(from), bytes);
  }
}

}  // namespace unisono::kernels
#endif
