#pragma once

#include <cstddef>
#include <string>

namespace unisono::tools {

/// Reads "8", "8B", "1KiB", "1K", "64MiB" or "1G" as bytes. Throws InvalidArgument for other text and for zero.
std::size_t parse_bytes(const std::string& text);
/// Returns text such as "8 B" or "64 KiB".
std::string format_bytes(std::size_t bytes);

}  // namespace unisono::tools
