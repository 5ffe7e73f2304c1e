#pragma once

// The name std::filesystem::path, without <filesystem>, which takes as long to compile as all collectives. The standard has no such header; libstdc++
// keeps these declarations in one of its own. With another standard library the whole header is taken.

#if defined(__has_include) && __has_include(<bits/c++config.h>) && __has_include(<bits/fs_fwd.h>)
#include <bits/fs_fwd.h>
#else
#include <filesystem>
#endif
