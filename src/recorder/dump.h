#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <string>
#include <string_view>

#include "base/file_descriptor.h"

namespace unisono::recorder {

/// The variable that names the folder for the records of a job that fails, or that is asked for them by SIGUSR2.
inline constexpr const char* folder_variable = "UNISONO_RECORD_DIR";
/// The names of such files end so.
inline constexpr std::string_view file_ending = ".record";

/// Returns the name of a rank's file in that folder: "JOB.RANK.PID.record". Characters of the job that have no place in a name are replaced.
std::string file_name_of(std::string_view job, int rank, pid_t pid);

/// A file for a copy of a record. It is prepared where memory may be taken, and written in the handler of a signal as well.
class DumpFile {
 public:
  /// Makes the folder where there is none, and says so where a file cannot be written into it. Nothing is written without a folder.
  void prepare(const std::string& folder, const std::string& name);
  bool is_prepared() const noexcept { return is_prepared_.load(std::memory_order_acquire); }
  /// Writes the file as a whole, or leaves the former one. A handler of a signal may call it.
  bool write(const void* memory, std::size_t bytes) noexcept;

 private:
  using Path = std::array<char, 1024>;
  Path path_{}, new_path_{};
  std::atomic<bool> is_prepared_{false}, is_busy_{false};
};

/// Writes the record of a rank that has ended into the folder, unless the rank itself has done so. `kept` is the file of its memory.
void dump_ended(const base::FileDescriptor& kept, const std::string& folder);

}  // namespace unisono::recorder
