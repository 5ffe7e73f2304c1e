#include "recorder/text_numbers.h"

#include <array>
#include <cstring>

#include "base/error_place.h"

namespace unisono::recorder {
namespace {

std::string_view file_name_of(std::string_view path) {
  const auto slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

}  // namespace

std::uint16_t TextNumbers::find_place(const std::source_location& where) noexcept {
  const std::lock_guard lock(mutex_);
  for (std::uint16_t i = 1; i < place_count_; ++i) {
    if (places_[i].line == where.line() && places_[i].file == where.file_name()) return i;
  }
  if (place_count_ == places_.size() || base::is_own_place(where)) return 0;
  const std::uint16_t id = place_count_++;
  places_[id] = {where.file_name(), where.line(), id};
  std::array<char, 16> line{};
  int digits = 0;
  for (std::uint32_t left = where.line(); left != 0; left /= 10)
    line[line.size() - static_cast<std::size_t>(++digits)] = static_cast<char>('0' + left % 10);
  std::array<char, 64> text{};
  const std::string_view name = file_name_of(where.file_name());
  const auto room = text.size() - static_cast<std::size_t>(digits) - 1 - 4;
  const std::string_view kept = name.size() > room ? name.substr(name.size() - room) : name;
  std::memcpy(text.data(), kept.data(), kept.size());
  text[kept.size()] = ':';
  std::memcpy(text.data() + kept.size() + 1, line.data() + line.size() - static_cast<std::size_t>(digits), static_cast<std::size_t>(digits));
  texts_.places[id].set({text.data(), kept.size() + 1 + static_cast<std::size_t>(digits)}, FixedText<60>::Keep::end);
  return id;
}

std::uint8_t TextNumbers::find_label(std::string_view label) noexcept {
  const std::lock_guard lock(mutex_);
  for (std::uint8_t i = 1; i < label_count_; ++i) {
    if (labels_[i] == label.data()) return i;
  }
  if (label_count_ == labels_.size()) return 0;
  const std::uint8_t id = label_count_++;
  labels_[id] = label.data();
  texts_.labels[id].set(label);
  return id;
}

}  // namespace unisono::recorder
