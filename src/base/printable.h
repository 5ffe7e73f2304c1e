#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace unisono::base {

/// Returns the bytes of the character of UTF-8 that the text begins with; 0 where it begins with none, or with a control character.
std::size_t character_at(std::string_view text) noexcept;
/// Returns a text that somebody else has written, for a terminal or a log: in one line, with '?' in the place of each control character (escape
/// sequences begin with one) and of each byte that is not UTF-8.
std::string printable(std::string_view text);

}  // namespace unisono::base
