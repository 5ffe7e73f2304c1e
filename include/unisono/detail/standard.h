#pragma once

// Durations and clocks of std::chrono, std::function, std::plus and its like, the concepts of ranges, unique_ptr and shared_ptr, without the rest of
// <chrono>, <functional>, <ranges> and <memory>. The rest (calendars, searchers, views, parallel algorithms) takes as long to compile as this
// library's headers, and no signature of ours needs it. libstdc++ keeps these parts in headers of their own. With another standard library the whole
// headers are taken.

#include <exception>
#include <span>  // brings bits/ranges_base.h, which does not stand alone

#if defined(__has_include) && __has_include(<bits/c++config.h>) && __has_include(<bits/chrono.h>) && __has_include(<bits/std_function.h>) && \
    __has_include(<bits/ranges_base.h>) && __has_include(<bits/shared_ptr.h>) && __has_include(<bits/unique_ptr.h>)
#include <bits/chrono.h>
#include <bits/shared_ptr.h>
#include <bits/std_function.h>
#include <bits/stl_function.h>
#include <bits/unique_ptr.h>
#else
#include <chrono>
#include <functional>
#include <memory>
#include <ranges>
#endif
