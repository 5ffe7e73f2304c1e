#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace unisono::tools {

/// What everything that the command prints for people fits into.
inline constexpr std::size_t screen_columns = 80;

/// How many columns a text of one line takes; letters beyond ASCII take one.
std::size_t columns_of(std::string_view text);
/// Spaces behind the text, so that it takes that many columns.
std::string pad_right(std::string_view text, std::size_t columns);
/// Spaces in front of it.
std::string pad_left(std::string_view text, std::size_t columns);

/// The text in lines of at most `columns`, broken at spaces; those after the first begin with `indent` spaces. The first has `used` columns in front
/// of it already. A word that is too long for a line is broken where the line ends (a path at its last '/' before that). Without a newline at its
/// end.
std::string wrap(std::string_view text, std::size_t indent, std::size_t used = 0, std::size_t columns = screen_columns);

/// "  name    description" with the description from `column` on, in as many lines as it takes; a long name has its first line to itself. With a
/// newline.
std::string entry(std::string_view name, std::string_view description, std::size_t column);

}  // namespace unisono::tools
