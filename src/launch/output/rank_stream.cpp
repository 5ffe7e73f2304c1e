#include "launch/output/rank_stream.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <filesystem>
#include <utility>

#include "base/files.h"
#include "launch/process/program.h"

namespace unisono::launcher {
namespace {

bool is_full_disk(int error) { return error == ENOSPC || error == EDQUOT; }

/// Returns the local time as "2026-11-22-03-31-13".
std::string time_of_day() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::localtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d-%H-%M-%S", &parts);
  return text.data();
}

constexpr std::size_t tail_lines = 20;
constexpr std::size_t tail_width = 2000;
/// The last lines of a rank count as seen while this many of them are in view.
constexpr std::size_t telling_lines = 3;
/// A longer line is cut in two, which bounds the memory.
constexpr std::size_t longest_line = 16u << 20;
/// A progress bar that never ends its line is written at a '\r' after this many bytes where no terminal shows it.
constexpr std::size_t longest_bar = 64u << 10;
constexpr std::chrono::milliseconds rest_before_shown{100};

/// Returns what a terminal would show of a line that rewrites itself: the last part that is not empty.
std::string_view visible(std::string_view text) {
  while (!text.empty() && text.back() == '\r') text.remove_suffix(1);
  const auto rewind = text.rfind('\r');
  return rewind == std::string_view::npos ? text : text.substr(rewind + 1);
}

/// Returns the code that switches a colour off where a line leaves it on; otherwise the next rank's line would have that colour.
std::string_view end_of_colour(std::string_view text) {
  constexpr std::string_view reset = "\x1b[0m";
  return text.find('\x1b') != std::string_view::npos && !text.ends_with(reset) ? reset : std::string_view();
}

}  // namespace

RankLog::RankLog(const std::string& directory, int rank, int attempt) {
  path_ = directory + "/rank-" + std::to_string(rank) + (attempt > 0 ? ".attempt-" + std::to_string(attempt) : "") + ".log";
  file_.reset(base::open_to_write(path_.c_str(), 0666, O_APPEND));
  if (file_) return;
  const int error = errno;
  if (!is_full_disk(error)) throw StartFailed("cannot write the log file \"" + path_ + "\": " + error_text(error), 1);
  give_up(error);
}

void RankLog::append(std::string_view bytes) {
  while (file_ && !bytes.empty()) {
    const auto done = ::write(file_.get(), bytes.data(), bytes.size());
    if (done > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(done));
    } else if (errno != EINTR) {
      give_up(done == 0 ? ENOSPC : errno);
    }
  }
}

void RankLog::give_up(int error) {
  warning_ = "log file \"" + path_ + "\" ends here: " + error_text(error) + "; the job goes on";
  file_.reset();
}

std::string RankLog::take_warning() { return std::exchange(warning_, {}); }

std::string log_folder_name(const std::string& job_id) { return time_of_day() + "-" + job_id.substr(0, 8); }

LogFolder make_log_folder(const std::string& directory, const std::string& job_id, const std::string& name_of_folder) {
  namespace fs = std::filesystem;
  const std::string name = name_of_folder.empty() ? log_folder_name(job_id) : name_of_folder;
  const fs::path parent(directory), folder = parent / name;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    const std::string failure = "cannot make the folder for the logs \"" + folder.string() + "\": " + error.message();
    if (is_full_disk(error.value())) return {.warning = failure + "; the job runs without"};
    throw StartFailed(failure, 1);
  }
  // The link is optional: some file systems have none, and a file of that name is kept. It is made under another name and renamed, so that it is
  // never missing.
  const fs::path link = parent / "latest", new_link = parent / (".latest-" + job_id);
  if (fs::symlink_status(link, error).type() != fs::file_type::not_found && !fs::is_symlink(link, error)) return {.path = folder.string()};
  fs::create_directory_symlink(name, new_link, error);
  if (!error) fs::rename(new_link, link, error);
  if (error) fs::remove(new_link, error);
  return {.path = folder.string()};
}

RankStream::RankStream(Sink& sink, RankLog& log, std::string prefix, int rank)
    : sink_(&sink),
      log_(&log),
      prefix_(std::move(prefix)),
      torch_prefix_(fmt::format("[rank{}]:", rank)),
      unisono_prefix_(fmt::format("[unisono rank {}] ", rank)) {}

std::string_view RankStream::without_own_rank(std::string_view text, std::string& room) const {
  if (text.starts_with(unisono_prefix_)) {
    room = "[unisono] ";
    room += text.substr(unisono_prefix_.size());
    return room;
  }
  if (text.starts_with(torch_prefix_)) {
    text.remove_prefix(torch_prefix_.size());
    if (text.starts_with(' ')) text.remove_prefix(1);
  }
  return text;
}

void RankStream::feed(std::string_view bytes) {
  while (true) {
    const auto end = bytes.find('\n');
    if (end == std::string_view::npos) break;
    if (partial_.empty()) {
      emit(bytes.substr(0, end), true);
    } else {
      partial_ += bytes.substr(0, end);
      emit(partial_, true);
      partial_.clear();
    }
    bytes.remove_prefix(end + 1);
  }
  partial_ += bytes;
  rest_.reset();
  if (partial_.empty()) return;
  const auto rewind = partial_.rfind('\r');
  if (sink_->is_terminal() && rewind != std::string::npos) {
    show_bar();
  } else if (rewind != std::string::npos && rewind + 1 < partial_.size() && partial_.size() > longest_bar) {
    emit(std::string_view(partial_).substr(0, rewind + 1), true);
    partial_.erase(0, rewind + 1);
  } else if (partial_.size() > longest_line) {
    emit(partial_, true);
    partial_.clear();
  } else if (sink_->is_terminal()) {
    rest_.emplace(rest_before_shown);
  }
}

void RankStream::finish() {
  if (!partial_.empty()) emit(partial_, false);
  partial_.clear();
  rest_.reset();
}

std::optional<std::chrono::milliseconds> RankStream::rests_for() const { return rest_ ? std::optional(rest_->left()) : std::nullopt; }

void RankStream::show_rested() {
  if (!rest_ || !rest_->passed()) return;
  rest_.reset();
  std::string room;
  sink_->show_live(this, prefix_ + std::string(without_own_rank(partial_, room)));
}

void RankStream::settle() {
  if (!sink_->shows_live_of(this)) return;
  log_->append(partial_);
  partial_.clear();
  rest_.reset();
  sink_->forget_live();
}

void RankStream::show_bar() {
  sink_->show_live(this, prefix_ + std::string(visible(partial_)));
  // Overwritten states need not be kept. The last state is kept, because "100 %\r" may be followed by nothing but '\n'.
  const auto last = partial_.find_last_not_of('\r');
  const auto begin = last == std::string::npos ? std::string::npos : partial_.rfind('\r', last);
  if (begin == std::string::npos) return;
  log_->append(std::string_view(partial_).substr(0, begin + 1));
  partial_.erase(0, begin + 1);
}

void RankStream::emit(std::string_view text, bool with_newline) {
  log_->append(text);
  if (with_newline) log_->append("\n");
  std::string room;
  text = without_own_rank(text, room);
  remember(visible(text));
  if (sink_->broken()) return;
  sink_->drop_live(this);
  std::string line = prefix_;
  if (sink_->is_terminal()) {
    line += visible(text);
    line += end_of_colour(visible(text));
  } else {
    while (!text.empty()) {
      const std::size_t part = std::min(text.find('\r'), text.size() - 1) + 1;
      line += text.substr(0, part);
      text.remove_prefix(part);
      if (!text.empty() && line.back() == '\r') line += prefix_;
    }
  }
  sink_->line(line);
}

void RankStream::remember(std::string_view text) {
  if (tail_.size() == tail_lines) tail_.pop_front();
  tail_.emplace_back(text.substr(0, tail_width));
  if (last_shown_.size() == telling_lines) last_shown_.pop_front();
  last_shown_.push_back(sink_->lines());
}

}  // namespace unisono::launcher
