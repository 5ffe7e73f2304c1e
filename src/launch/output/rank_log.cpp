#include "launch/output/rank_log.h"

#include <fcntl.h>
#include <unistd.h>

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

}  // namespace unisono::launcher
