#include "launch/rank_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "launch/program.h"

namespace unisono::launcher {
namespace {

bool is_full_disk(int error) { return error == ENOSPC || error == EDQUOT; }

}  // namespace

RankLog::RankLog(const std::string& directory, int rank, int attempt) {
  path_ = directory + "/rank-" + std::to_string(rank) + (attempt > 0 ? ".attempt-" + std::to_string(attempt) : "") + ".log";
  file_.reset(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666));
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

void make_log_directory(const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error && !is_full_disk(error.value())) {
    throw StartFailed("cannot make the folder for the logs \"" + directory + "\": " + error.message(), 1);
  }
}

}  // namespace unisono::launcher
