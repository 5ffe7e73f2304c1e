#pragma once

// Included before any header of Highway. It lists the instruction sets without code of their own. Sanitizer builds leave out the widest, since their
// code takes minutes to compile and the source is the same for every set.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#else
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#endif

// dispatch.h chooses on x86-64. Elsewhere the compiler's own target is the only one.
#if !defined(__x86_64__)
#define HWY_COMPILE_ONLY_STATIC
#endif
