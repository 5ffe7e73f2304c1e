#pragma once

#include <cstddef>  // says which standard library this is, and in which of its forms

#if __cplusplus < 202002L
#error "unisono: these headers are of C++20: compile with -std=c++20 or newer"
#endif
// The library's containers and strings are others in these forms of libstdc++: a program would link, and die.
#ifdef _GLIBCXX_DEBUG
#error "unisono: the library is built without _GLIBCXX_DEBUG, which makes other containers: leave it out, or take _GLIBCXX_ASSERTIONS"
#endif
#if defined(_GLIBCXX_USE_CXX11_ABI) && !_GLIBCXX_USE_CXX11_ABI
#error "unisono: the library is built with libstdc++'s new strings: leave _GLIBCXX_USE_CXX11_ABI=0 out"
#endif

/// Marks what the shared library exports; everything else stays hidden.
#define UNISONO_API [[gnu::visibility("default")]]
