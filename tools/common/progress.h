#pragma once

#include <chrono>
#include <string_view>

namespace unisono::tools {

/// A line on standard error that tells how far something long is, where that is a terminal; elsewhere it does nothing. The destructor erases it.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// Tells whether the line may change again: people read no more than ten changes a second.
  bool is_due() const;
  /// Replaces the line by the beginning of this text that fits into the terminal.
  void show(std::string_view text);

 private:
  const bool is_terminal_;
  bool is_shown_ = false;
  std::chrono::steady_clock::time_point changed_ = {};
};

}  // namespace unisono::tools
