#include "base/printable.h"

#include <algorithm>

namespace unisono::base {

std::size_t character_at(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (text.empty() || byte(0) < ' ' || byte(0) == 0x7f) return 0;
  const std::size_t size = byte(0) < 0x80 ? 1 : byte(0) >> 5 == 0x6 ? 2 : byte(0) >> 4 == 0xE ? 3 : byte(0) >> 3 == 0x1E ? 4 : 0;
  if (size == 0 || size > text.size()) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if (byte(i) >> 6 != 0x2) return 0;
  }
  constexpr unsigned char first_of_controls = 0xC2, behind_controls = 0xA0;  // U+0080 to U+009F, which terminals take for controls as well
  return size == 2 && byte(0) <= first_of_controls && byte(1) < behind_controls ? 0 : size;
}

std::string printable(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t size = character_at(text);
    if (size != 0) result += text.substr(0, size);
    else result += text[0] == '\n' || text[0] == '\t' ? ' ' : '?';
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return result;
}

}  // namespace unisono::base
