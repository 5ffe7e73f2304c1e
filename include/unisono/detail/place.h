#pragma once

#include <cstdint>
#include <source_location>
#include <string_view>

#include "unisono/export.h"

// The places of calls whose sources are not C++. Bindings use these; programs do not.

namespace unisono::detail {

/// Returns a place in a file of any language. The same file and line are the same place, whose texts
/// last as long as the process. Without a place (line 0) if a process has named 65536 of them.
UNISONO_API std::source_location place_in(std::string_view file, std::uint32_t line);

/// Says in which line of the program the calling thread is; line 0 if it is not known. It waits for
/// nothing except an interpreter.
using PlaceFinder = std::source_location (*)() noexcept;
/// From now on `place_of_caller` asks this function, which any thread may call.
UNISONO_API void set_place_finder(PlaceFinder finder) noexcept;
/// Returns the line of the program in which the calling thread is; line 0 if it is not known.
UNISONO_API std::source_location place_of_caller() noexcept;

}  // namespace unisono::detail
