#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "launch/process/poll_set.h"

namespace unisono::launcher {

/// An output stream of the launcher. Text is queued and written when the reader takes it, so that a slow reader (a pager) never keeps the
/// launcher from seeing a signal or a death. The descriptor belongs to the process and stays open.
///
/// On a terminal the last row may be a *live* line: an unfinished one (a progress bar, a prompt) that is taken away before a whole line is written
/// and put back after it. Below it there may be a *footer*, which stays the last row while lines scroll above it. The cursor is then at the end of
/// the live line, or at the beginning of an empty row above the footer.
class Sink {
 public:
  explicit Sink(int fd);

  bool is_terminal() const noexcept { return terminal_; }
  int fd() const noexcept { return fd_; }
  /// Returns true if writing has failed; further text is dropped.
  bool broken() const noexcept { return broken_; }
  /// Returns true if the reader has gone, as `head` does, which is no error.
  bool reader_left() const noexcept { return broken_ && error_ == 0; }
  /// Returns the errno of another failure, such as a full disk, or 0.
  int error() const noexcept { return error_; }
  /// Returns how many lines have been put in.
  std::uint64_t lines() const noexcept { return lines_; }
  /// Returns the width of the terminal, or 80 where it is unknown.
  std::size_t columns() const;
  /// Returns true while so much is queued that the ranks' output should not be read.
  bool is_full() const noexcept { return queue_.size() - written_ > most_queued; }
  bool is_empty() const noexcept { return written_ == queue_.size(); }

  /// A whole line, without its '\n'.
  void line(std::string_view text);
  /// Shows `text` as the live line in place of the one before, on a terminal only. Only this `owner` takes it away again.
  void show_live(const void* owner, std::string_view text);
  /// Takes the live line away if it belongs to this owner.
  void drop_live(const void* owner);
  /// Leaves the live line where it is; the cursor has moved on because the user has typed behind it.
  void forget_live() noexcept { live_owner_ = nullptr; }
  /// The user has ended a line on the terminal, so the cursor has moved on to the next row.
  void note_typed();
  /// Shows `text` as the footer, as much of it as there are columns for. An empty one takes it away. Does nothing where there is no terminal.
  void set_footer(std::string_view text);
  /// The terminal has another size, and may have broken its rows anew.
  void resize();
  bool shows_live_of(const void* owner) const noexcept { return live_owner_ == owner; }

  /// Writes as much as the reader takes now.
  void flush();
  /// Has flush() called again when the reader takes more.
  void wait_for(PollSet& set);

 private:
  static constexpr std::size_t most_queued = 1u << 20;  // bytes, beyond which the ranks' output is not read

  void erase_bottom();
  void draw_footer();
  std::string cut_footer() const { return cut_to_columns(footer_); }
  std::string cut_to_columns(std::string_view text) const;

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
  std::string footer_;
  bool is_footer_drawn_ = false;
};

/// Returns the first `columns` columns of a line; colour codes take no column.
std::string cut_to_width(std::string_view text, std::size_t columns);

/// Returns the columns that a text of UTF-8 takes; colour codes take none.
std::size_t columns_of(std::string_view text);

/// Breaks the text at blanks into rows of at most so many columns; every row but the first begins with `indent` blanks. A longer word has a row of
/// its own.
std::string wrap_to_width(std::string_view text, std::size_t columns, std::size_t indent);

}  // namespace unisono::launcher
