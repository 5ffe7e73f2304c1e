#pragma once

#include <string>
#include <string_view>

#include "base/file_descriptor.h"

namespace unisono::launcher {

/// The file of one rank under --logs: its lines as it wrote them, standard output and error in the order they arrived. A file that cannot be written
/// (a full disk) is given up with one warning for the whole job; the job goes on.
class RankLog {
 public:
  RankLog() = default;  ///< writes nowhere
  /// Makes DIR/rank-R.log (DIR/rank-R.attempt-A.log after a restart).
  RankLog(const std::string& directory, int rank, int attempt);
  RankLog(RankLog&&) = default;
  RankLog& operator=(RankLog&&) = default;

  bool is_open() const noexcept { return file_.valid(); }
  void append(std::string_view bytes);
  /// Returns a warning once, then empty text.
  std::string take_warning();

 private:
  void give_up(int error);

  base::FileDescriptor file_;
  std::string path_;
  std::string warning_;
};

/// The folder of one job.
struct LogFolder {
  std::string path = {};     ///< empty if there is none
  std::string warning = {};  ///< why there is none: the disk is full
};

/// Makes a folder for the job in `directory`, which is made as well if needed. The folder is named after the time and the job unless it gets a name,
/// and the link `latest` in `directory` points to it. Throws StartFailed where that is impossible, except on a full disk.
LogFolder make_log_folder(const std::string& directory, const std::string& job_id, const std::string& name_of_folder = {});
/// Returns the name that the folder of a job would have now.
std::string log_folder_name(const std::string& job_id);

}  // namespace unisono::launcher
