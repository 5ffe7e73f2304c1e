#pragma once

#include <cstddef>

namespace unisono::kernels {

/// Copies as memcpy does, by the fastest way through the caches; `to` and `from` may also be the same address.
void copy(void* to, const void* from, std::size_t bytes) noexcept;

/// Copies past the caches: for a result that does not fit in them (from about half of the last level on) or that this core will not read. A thread
/// that sees a later store of this thread sees the copied bytes as well.
void copy_streaming(void* to, const void* from, std::size_t bytes) noexcept;

}  // namespace unisono::kernels
