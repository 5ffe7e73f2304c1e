#pragma once

#include <charconv>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/counted.h"

namespace unisono::tools {

/// The width of all text that the command prints for people, but for help pages on a terminal.
inline constexpr std::size_t screen_columns = 80;

struct ScreenSize {
  std::size_t rows = 24, columns = screen_columns;
};
/// Returns the size of the terminal behind this descriptor, or the usual one where there is none.
ScreenSize screen_size(int fd);

/// Returns how many columns a one-line text takes; letters beyond ASCII take one.
std::size_t columns_of(std::string_view text);
/// Returns the beginning of a one-line text that takes at most so many columns.
std::string_view first_columns(std::string_view text, std::size_t columns);
/// Appends spaces until the text takes that many columns.
std::string pad_right(std::string_view text, std::size_t columns);
/// Puts spaces in front until the text takes that many columns.
std::string pad_left(std::string_view text, std::size_t columns);

/// Breaks the text at spaces into lines of at most `columns`; those after the first begin with `indent` spaces, and `used` columns of the first are
/// already taken. A word that is too long for a line is broken where the line ends (a path at its last '/' before that). The result has no newline at
/// its end.
std::string wrap(std::string_view text, std::size_t indent, std::size_t used = 0, std::size_t columns = screen_columns);

/// Returns "  name    description" with the description from `column` on, in as many lines of `columns` as needed; a long name has the first line to
/// itself. Ends with a newline.
std::string entry(std::string_view name, std::string_view description, std::size_t column, std::size_t columns = screen_columns);

/// Returns the number that is the whole text; nothing: it is something else.
template <class Number>
std::optional<Number> parse_number(std::string_view text, int base = 10) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

using base::counted;

/// Reads "8", "8B", "1KiB", "1K", "64MiB" or "1G" as bytes. Throws InvalidArgument for other text and for zero.
std::size_t parse_bytes(const std::string& text);
/// Returns text such as "8 B" or "64 KiB".
std::string format_bytes(std::size_t bytes);
/// Returns the bytes in the largest unit of which they are one or more: 1.5 and "KiB".
std::pair<double, std::string_view> scaled_bytes(double bytes);

}  // namespace unisono::tools
