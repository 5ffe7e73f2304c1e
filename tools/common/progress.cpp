#include "common/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <iostream>

#include "common/text.h"

namespace unisono::tools {

using Clock = std::chrono::steady_clock;

ProgressLine::ProgressLine() : is_terminal_(::isatty(STDERR_FILENO) == 1) {}

ProgressLine::~ProgressLine() {
  if (is_shown_) std::cerr << "\r\033[K" << std::flush;
}

bool ProgressLine::is_due() const {
  constexpr std::chrono::milliseconds between{100};
  return is_terminal_ && Clock::now() - changed_ >= between;
}

// The cursor stands behind a space, and in no second row: only one row is erased.
void ProgressLine::show(std::string_view text) {
  if (!is_terminal_) return;
  changed_ = Clock::now();
  is_shown_ = true;
  std::cerr << fmt::format("\r\033[K{} ", first_columns(text, screen_size(STDERR_FILENO).columns - 2)) << std::flush;  // in one write
}

}  // namespace unisono::tools
