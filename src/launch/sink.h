#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "launch/poll_set.h"

namespace unisono::launcher {

/// One of the launcher's own output streams. What is put in is queued and written when the reader takes it, so that a slow reader (a pager)
/// never keeps the launcher from seeing a signal or a death. Not closed at the end: it belongs to the process.
///
/// On a terminal the last row may be a *live* line: an unfinished one (a progress bar, a prompt) that is taken away before a whole line is
/// written and put back after it.
class Sink {
 public:
  explicit Sink(int fd);

  bool is_terminal() const noexcept { return terminal_; }
  int fd() const noexcept { return fd_; }
  /// Nothing can be written any more; whatever is put in is dropped.
  bool broken() const noexcept { return broken_; }
  /// It is broken because its reader has gone, as `head` does: no error.
  bool reader_left() const noexcept { return broken_ && error_ == 0; }
  /// Why it is broken otherwise: the errno, of a full disk for instance; or 0.
  int error() const noexcept { return error_; }
  /// How many lines have been put in.
  std::uint64_t lines() const noexcept { return lines_; }
  /// Of the terminal; 80 where it does not say.
  std::size_t columns() const;
  /// Readers of ranks' output pause while there is more than this waiting.
  bool is_full() const noexcept { return queue_.size() - written_ > 1u << 20; }
  bool is_empty() const noexcept { return written_ == queue_.size(); }

  /// A whole line, without its '\n'.
  void line(std::string_view text);
  /// Terminal only: shows `text` as the live line, in place of the one before. `owner` is whoever may take it away again.
  void show_live(const void* owner, std::string_view text);
  /// Takes the live line away, where it is this owner's.
  void drop_live(const void* owner);
  /// Leaves the live line where it stands; the cursor has moved on (the user has typed behind it).
  void forget_live() noexcept { live_owner_ = nullptr; }
  bool shows_live_of(const void* owner) const noexcept { return live_owner_ == owner; }

  /// Writes as much as is taken now.
  void flush();
  /// Comes back to flush() when the reader takes more.
  void wait_for(PollSet& set);

 private:
  void erase_live();

  int fd_;
  bool terminal_;
  bool regular_;
  bool broken_ = false;
  int error_ = 0;
  std::uint64_t lines_ = 0;
  std::string queue_;
  std::size_t written_ = 0;
  std::string live_;
  const void* live_owner_ = nullptr;
};

/// The first `columns` columns of a line, colour codes counted as nothing.
std::string cut_to_width(std::string_view text, std::size_t columns);

/// The text in rows of at most so many columns, broken at blanks; every row but the first begins with `indent` blanks. A longer word has a row of
/// its own.
std::string wrap_to_width(std::string_view text, std::size_t columns, std::size_t indent);

}  // namespace unisono::launcher
