#include "common/text.h"

#include <fmt/format.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <utility>

#include "unisono/error.h"

namespace unisono::tools {
namespace {

bool begins_letter(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

constexpr std::array size_units = {std::pair{"", 0},     std::pair{"b", 0},  std::pair{"kib", 10}, std::pair{"k", 10},
                                   std::pair{"mib", 20}, std::pair{"m", 20}, std::pair{"gib", 30}, std::pair{"g", 30}};

}  // namespace

ScreenSize screen_size(int fd) {
  winsize size{};
  ScreenSize found;
  if (::ioctl(fd, TIOCGWINSZ, &size) != 0) return found;
  if (size.ws_row > 1) found.rows = size.ws_row;
  if (size.ws_col > 1) found.columns = size.ws_col;
  return found;
}

std::size_t columns_of(std::string_view text) { return static_cast<std::size_t>(std::ranges::count_if(text, begins_letter)); }

std::string_view first_columns(std::string_view text, std::size_t columns) {
  std::size_t taken = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (begins_letter(text[i]) && taken++ == columns) return text.substr(0, i);
  }
  return text;
}

std::string pad_right(std::string_view text, std::size_t columns) {
  return std::string(text) + std::string(columns - std::min(columns, columns_of(text)), ' ');
}

std::string pad_left(std::string_view text, std::size_t columns) {
  return std::string(columns - std::min(columns, columns_of(text)), ' ') + std::string(text);
}

std::string wrap(std::string_view text, std::size_t indent, std::size_t used, std::size_t columns) {
  std::string result;
  std::size_t at = used;  // used columns of this line
  bool fresh = true;      // no word has been put into this line
  const auto new_line = [&] {
    while (result.ends_with(' ')) result.pop_back();
    result.append("\n").append(indent, ' ');
    at = indent;
    fresh = true;
  };
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    std::string_view word = text.substr(begin, end - begin);
    begin = end + 1;
    if (word.empty()) continue;
    if (!fresh && at + 1 + columns_of(word) > columns) new_line();
    if (!fresh) {
      result += ' ';
      ++at;
    }
    while (at + columns_of(word) > columns && at < columns) {
      std::size_t cut = first_columns(word, columns - at).size();
      if (const auto slash = word.substr(0, cut).rfind('/'); slash != std::string_view::npos && slash > 0) cut = slash + 1;
      result += word.substr(0, cut);
      word.remove_prefix(cut);
      new_line();
    }
    result += word;
    at += columns_of(word);
    fresh = false;
  }
  return result;
}

std::string entry(std::string_view name, std::string_view description, std::size_t column, std::size_t columns) {
  std::string text = "  " + std::string(name);
  if (columns_of(text) + 2 > column) text.append("\n").append(column, ' ');
  else text = pad_right(text, column);
  return text + wrap(description, column, column, columns) + "\n";
}

std::size_t parse_bytes(const std::string& text) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string unit(end, text.data() + text.size());
  std::ranges::transform(unit, unit.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  for (const auto& [name, shift] : size_units) {
    if (error != std::errc{} || unit != name) continue;
    if (number == 0 || number > (std::numeric_limits<std::size_t>::max() >> 16 >> shift)) break;
    return number << shift;
  }
  throw InvalidArgument("'" + text + "' is no size", {.hint = "sizes look like 8, 1KiB, 64MiB"});
}

std::string format_bytes(std::size_t bytes) {
  for (const auto& [name, shift] : {std::pair{"GiB", 30}, std::pair{"MiB", 20}, std::pair{"KiB", 10}})
    if (bytes >> shift != 0 && (bytes & ((std::size_t{1} << shift) - 1)) == 0) return fmt::format("{} {}", bytes >> shift, name);
  return fmt::format("{} B", bytes);
}

std::pair<double, std::string_view> scaled_bytes(double bytes) {
  constexpr std::array<std::string_view, 7> units{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < units.size(); ++unit) bytes /= 1024;
  return {bytes, units[unit]};
}

}  // namespace unisono::tools
