#include "launch/output/sink.h"

#include <limits.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace unisono::launcher {
namespace {

bool is_regular(int fd) {
  struct stat about {};
  return ::fstat(fd, &about) == 0 && S_ISREG(about.st_mode);
}

bool starts_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0u) != 0x80u; }

}  // namespace

std::string cut_to_width(std::string_view text, std::size_t columns) {
  std::string out;
  bool coloured = false;
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] == '\x1b') {
      std::size_t end = i + 1;
      if (end < text.size() && text[end] == '[') ++end;
      while (end < text.size() && (text[end] < '@' || text[end] > '~')) ++end;
      out.append(text.substr(i, end + 1 - i));
      i = end + 1;
      coloured = true;
      continue;
    }
    if (starts_character(text[i]) && columns-- == 0) break;
    out += text[i++];
  }
  return coloured ? out + "\x1b[0m" : out;
}

std::size_t columns_of(std::string_view text) {
  std::size_t columns = 0;
  bool in_code = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') in_code = true;
    else if (in_code) in_code = !(text[i] >= '@' && text[i] <= '~' && text[i] != '[');
    else if (starts_character(text[i])) ++columns;
  }
  return columns;
}

std::string wrap_to_width(std::string_view text, std::size_t columns, std::size_t indent) {
  std::string out;
  std::size_t used = 0;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    const auto width = static_cast<std::size_t>(std::count_if(word.begin(), word.end(), starts_character));
    if (used > indent && used + 1 + width > columns) {
      out += '\n';
      out.append(indent, ' ');
      used = indent;
    } else if (!out.empty()) {
      out += ' ';
      ++used;
    }
    out += word;
    used += width;
    text.remove_prefix(std::min(word.size() + 1, text.size()));
  }
  return out;
}

Sink::Sink(int fd) : fd_(fd), terminal_(::isatty(fd) == 1), regular_(is_regular(fd)) {}

std::size_t Sink::columns() const {
  winsize size{};
  return ::ioctl(fd_, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80u;
}

std::string Sink::cut_to_columns(std::string_view text) const { return cut_to_width(text, columns() - 1); }

void Sink::erase_bottom() {
  if (std::exchange(is_footer_drawn_, false)) queue_ += "\r\x1b[J";
  else if (live_owner_ != nullptr) queue_ += "\r\x1b[K";
}

/// Many lines are often put in before one flush, so only that draws the footer.
void Sink::draw_footer() {
  if (footer_.empty() || is_footer_drawn_ || broken_) return;
  queue_ += "\n\r" + cut_footer() + "\x1b[A\r";
  if (live_owner_ != nullptr) queue_ += live_;
  is_footer_drawn_ = true;
}

void Sink::set_footer(std::string_view text) {
  if (broken_ || !terminal_ || text == footer_) return;
  footer_ = text;
  if (!is_footer_drawn_) return;
  if (footer_.empty()) {
    erase_bottom();
    if (live_owner_ != nullptr) queue_ += live_;
  } else {
    constexpr const char* keep_cursor = "\x1b\x37";  // DECSC: what the user types in the row above stays
    constexpr const char* restore_cursor = "\x1b\x38";
    queue_ += std::string(keep_cursor) + "\x1b[B\r\x1b[J" + cut_footer() + restore_cursor;
  }
}

void Sink::note_typed() {
  if (std::exchange(is_footer_drawn_, false)) queue_ += "\r\x1b[J";
}

void Sink::resize() {
  if (!is_footer_drawn_) return;
  // A narrower terminal may have broken the live line into several rows; the cursor is in the last one of them.
  const std::size_t rows = live_owner_ == nullptr ? 0 : columns_of(live_) / columns();
  if (rows > 0) queue_ += "\x1b[" + std::to_string(rows) + "A";
  erase_bottom();
  live_ = cut_to_columns(live_);
  if (live_owner_ != nullptr) queue_ += live_;
}

void Sink::line(std::string_view text) {
  if (broken_) return;
  ++lines_;
  erase_bottom();
  queue_ += text;
  queue_ += '\n';
  if (live_owner_ != nullptr) queue_ += live_;
}

void Sink::show_live(const void* owner, std::string_view text) {
  if (broken_ || !terminal_) return;
  erase_bottom();
  live_owner_ = owner;
  live_ = cut_to_columns(text);
  queue_ += live_;
}

void Sink::drop_live(const void* owner) {
  if (live_owner_ == owner && owner != nullptr) {
    erase_bottom();
    live_owner_ = nullptr;
    live_.clear();
  }
}

void Sink::flush() {
  draw_footer();
  while (!is_empty() && !broken_) {
    // A ready pipe takes PIPE_BUF bytes without blocking, even where the descriptor is a blocking one shared with other processes.
    pollfd ready{fd_, POLLOUT, 0};
    if (!regular_ && ::poll(&ready, 1, 0) <= 0) return;
    const std::size_t rest = queue_.size() - written_;
    const auto done = ::write(fd_, queue_.data() + written_, regular_ ? rest : std::min<std::size_t>(rest, PIPE_BUF));
    if (done > 0) {
      written_ += static_cast<std::size_t>(done);
    } else if (done < 0 && errno == EINTR) {
      continue;
    } else if (done == 0 || errno == EAGAIN) {
      return;  // a terminal takes nothing while it discards its buffer, as it does at Ctrl-C
    } else {
      broken_ = true;
      if (done < 0 && errno != EPIPE) error_ = errno;
    }
  }
  if (broken_ || is_empty()) {
    queue_.clear();
    written_ = 0;
  } else if (written_ > 1u << 20) {
    queue_.erase(0, written_);
    written_ = 0;
  }
}

void Sink::wait_for(PollSet& set) {
  if (is_empty() || broken_) return;
  if (regular_) {
    set.wake_within(PollSet::Milliseconds(0));
  } else {
    set.add(fd_, POLLOUT, [](short) {});  // the flush at the end of the round writes
  }
}

}  // namespace unisono::launcher
