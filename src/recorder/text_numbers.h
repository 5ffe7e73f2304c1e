#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <source_location>
#include <string_view>

#include "recorder/layout.h"

namespace unisono::recorder {

/// Gives each place and each label of calls a number, and writes its text to the record when it is first met. `is_owner`: the calling thread is the
/// one that made the recorder, whose last texts are looked at first.
class TextNumbers {
 public:
  explicit TextNumbers(RecordTexts& texts) : texts_(texts) {}

  std::uint16_t place(const std::source_location& where, bool is_owner) noexcept {
    if (where.line() == 0) return 0;
    if (!is_owner) return find_place(where);
    SourceLine& recent = recent_[where.line() % recent_.size()];
    if (recent.file != where.file_name() || recent.line != where.line()) [[unlikely]]
      recent = {where.file_name(), where.line(), find_place(where)};
    return recent.id;
  }

  /// `label`: a string literal.
  std::uint8_t label(std::string_view label, bool is_owner) noexcept {
    if (label.empty()) return 0;
    if (!is_owner) return find_label(label);
    if (last_label_ != label.data()) {
      last_label_id_ = find_label(label);
      last_label_ = label.data();
    }
    return last_label_id_;
  }

 private:
  std::uint16_t find_place(const std::source_location& where) noexcept;
  std::uint8_t find_label(std::string_view label) noexcept;

  struct SourceLine {
    const char* file = nullptr;
    std::uint32_t line = 0;
    std::uint16_t id = 0;
  };

  RecordTexts& texts_;
  std::array<SourceLine, 64> recent_;  // of the owner
  const char* last_label_ = nullptr;
  std::uint8_t last_label_id_ = 0;
  std::mutex mutex_;  // of what follows
  std::array<SourceLine, RecordTexts::most_places> places_;
  std::uint16_t place_count_ = 1;
  std::array<const char*, RecordTexts::most_labels> labels_{};
  std::uint8_t label_count_ = 1;
};

}  // namespace unisono::recorder
