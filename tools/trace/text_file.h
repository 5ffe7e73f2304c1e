#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/file_descriptor.h"

namespace unisono::tools {

/// A file that is written piece by piece, so that the whole need not be in memory. It replaces a former one when it is complete.
class TextFile {
 public:
  /// Throws Error where it cannot be written.
  explicit TextFile(std::string path);
  ~TextFile();
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;

  void put(std::string_view text) {
    buffer_ += text;
    if (buffer_.size() >= most_buffered) flush();
  }
  template <class... Values>
  void print(fmt::format_string<Values...> format, Values&&... values) {
    fmt::format_to(std::back_inserter(buffer_), format, std::forward<Values>(values)...);
    if (buffer_.size() >= most_buffered) flush();
  }
  /// Puts what the function returns of each element, with a text between them.
  template <class Range, class Text>
  void list(const Range& range, const Text& text_of, std::string_view between = ",") {
    std::string_view separator;
    for (const auto& each : range) {
      put(separator);
      put(text_of(each));
      separator = between;
    }
  }
  /// Throws Error where not everything was written.
  void finish();

 private:
  static constexpr std::size_t most_buffered = 1 << 20;
  void flush();
  [[noreturn]] void fail();

  std::string path_, new_path_, buffer_;
  base::FileDescriptor file_;
  bool is_made_ = false, is_finished_ = false;
};

/// Returns a text as a JSON string, with its quotes. It may stand in a page: it contains no '<'.
std::string json_string(std::string_view text);

}  // namespace unisono::tools
