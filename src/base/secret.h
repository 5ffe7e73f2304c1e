#pragma once

#include <concepts>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

namespace unisono::base {

/// Overwrites the vector registers, by which memory is copied: they still hold what was copied last, and the dynamic linker and signal handlers write
/// them to the stack. It is called after a secret was copied. No caller expects anything in them.
inline void clear_vector_registers() noexcept {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) {
    asm volatile(
        "vpxord %%zmm16, %%zmm16, %%zmm16\n\tvpxord %%zmm17, %%zmm17, %%zmm17\n\tvpxord %%zmm18, %%zmm18, %%zmm18\n\t"
        "vpxord %%zmm19, %%zmm19, %%zmm19\n\tvpxord %%zmm20, %%zmm20, %%zmm20\n\tvpxord %%zmm21, %%zmm21, %%zmm21\n\t"
        "vpxord %%zmm22, %%zmm22, %%zmm22\n\tvpxord %%zmm23, %%zmm23, %%zmm23\n\tvpxord %%zmm24, %%zmm24, %%zmm24\n\t"
        "vpxord %%zmm25, %%zmm25, %%zmm25\n\tvpxord %%zmm26, %%zmm26, %%zmm26\n\tvpxord %%zmm27, %%zmm27, %%zmm27\n\t"
        "vpxord %%zmm28, %%zmm28, %%zmm28\n\tvpxord %%zmm29, %%zmm29, %%zmm29\n\tvpxord %%zmm30, %%zmm30, %%zmm30\n\t"
        "vpxord %%zmm31, %%zmm31, %%zmm31" ::
            :
#if defined(__AVX512F__)  // else the compiler uses none of these registers, and knows no such names
        "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25", "xmm26", "xmm27", "xmm28", "xmm29", "xmm30",
        "xmm31",
#endif
        "memory");
  }
  if (__builtin_cpu_supports("avx")) {
    asm volatile("vzeroall" ::
                     : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14",
                       "xmm15", "memory");
  }
#elif defined(__aarch64__)
  asm volatile(
      "movi v0.16b, #0\n\tmovi v1.16b, #0\n\tmovi v2.16b, #0\n\tmovi v3.16b, #0\n\tmovi v4.16b, #0\n\tmovi v5.16b, #0\n\t"
      "movi v6.16b, #0\n\tmovi v7.16b, #0\n\tmovi v16.16b, #0\n\tmovi v17.16b, #0\n\tmovi v18.16b, #0\n\tmovi v19.16b, #0\n\t"
      "movi v20.16b, #0\n\tmovi v21.16b, #0\n\tmovi v22.16b, #0\n\tmovi v23.16b, #0\n\tmovi v24.16b, #0\n\tmovi v25.16b, #0\n\t"
      "movi v26.16b, #0\n\tmovi v27.16b, #0\n\tmovi v28.16b, #0\n\tmovi v29.16b, #0\n\tmovi v30.16b, #0\n\tmovi v31.16b, #0" ::
          : "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28",
            "v29", "v30", "v31", "memory");
#endif
}

/// Bytes that nobody else may learn: a token, a password, a key. They lie on pages that hold secrets alone and that the system leaves out of core
/// dumps (MADV_DONTDUMP). Copies share them, and the last one that goes overwrites them. Whoever computes with them takes a `view`; there is no
/// conversion to std::string, whose copies would stay in the memory that the process frees.
class Secret {
 public:
  Secret() = default;
  /// Copies the bytes of a text, which stays as it is.
  template <std::convertible_to<std::string_view> Text>
  Secret(const Text& text) : Secret(copy_of(text)) {}  // NOLINT(google-explicit-constructor): a text may become a secret anywhere
  /// Copies the bytes of a text and overwrites them there.
  static Secret taking(std::string&& text);
  /// Makes a secret of `most` bytes at most where they are to lie: `fill(bytes)` writes them and returns their number.
  template <std::invocable<char*> Fill>
  static Secret filled(std::size_t most, Fill&& fill) {
    Secret made;
    if (most == 0) return made;
    made.bytes_ = allocate(most);
    made.size_ = fill(made.bytes_.get());
    return made;
  }

  /// The view is valid while one of the copies lives.
  std::string_view view() const { return {bytes_.get(), size_}; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  template <std::convertible_to<std::string_view> Text>
  friend bool operator==(const Secret& a, const Text& b) {
    return a.view() == std::string_view(b);
  }
  friend bool operator==(const Secret& a, const Secret& b) { return a.view() == b.view(); }

 private:
  static Secret copy_of(std::string_view text);
  static std::shared_ptr<char> allocate(std::size_t size);

  std::shared_ptr<char> bytes_;
  std::size_t size_ = 0;
};

/// Overwrites a text that held a secret for a moment, with all the memory that it has, and empties it.
inline void wipe(std::string& text) noexcept {
  text.resize(text.capacity());
  ::explicit_bzero(text.data(), text.size());
  text.clear();
  clear_vector_registers();
}
/// Takes bytes off the front of a buffer, and leaves no copy of them in its memory.
void wipe_front(std::string& buffer, std::size_t size) noexcept;
/// Appends to a buffer. Memory that it outgrows is overwritten before it is freed.
void append_wiping(std::string& buffer, std::string_view bytes);

}  // namespace unisono::base
