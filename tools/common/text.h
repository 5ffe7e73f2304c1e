#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace unisono::tools {

/// The width of all text that the command prints for people.
inline constexpr std::size_t screen_columns = 80;

/// Returns how many columns a one-line text takes; letters beyond ASCII take one.
std::size_t columns_of(std::string_view text);
/// Appends spaces until the text takes that many columns.
std::string pad_right(std::string_view text, std::size_t columns);
/// Puts spaces in front until the text takes that many columns.
std::string pad_left(std::string_view text, std::size_t columns);

/// Breaks the text at spaces into lines of at most `columns`; those after the first begin with `indent` spaces, and `used` columns of the first are
/// already taken. A word that is too long for a line is broken where the line ends (a path at its last '/' before that). The result has no newline at
/// its end.
std::string wrap(std::string_view text, std::size_t indent, std::size_t used = 0, std::size_t columns = screen_columns);

/// Returns "  name    description" with the description from `column` on, in as many lines as needed; a long name has the first line to itself. Ends
/// with a newline.
std::string entry(std::string_view name, std::string_view description, std::size_t column);

}  // namespace unisono::tools
