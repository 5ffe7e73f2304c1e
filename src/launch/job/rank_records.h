#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "launch/job_options.h"
#include "recorder/reader.h"

namespace unisono::launcher {

/// The files in which the ranks of one attempt record their calls, by their places on this host. They outlast the ranks.
class RankRecords {
 public:
  using File = std::shared_ptr<const base::FileDescriptor>;

  /// `job_name`: the same on all hosts.
  RankRecords(const JobOptions& options, std::string job_name, int attempt);

  /// Makes a file for a process of that name. Throws StartFailed where there can be no trace.
  File make(int rank, const std::string& name) const;
  /// The process in this place writes into that file.
  void put(std::size_t index, File file) { files_[index] = std::move(file); }
  const File& at(std::size_t index) const { return files_[index]; }
  void note_ended(std::size_t index) const;
  /// Writes the record of a rank that could not do so itself.
  void keep(std::size_t index) const;
  void keep_all() const;
  /// Returns what the ranks have recorded, without their calls.
  std::vector<recorder::RankSeen> read() const;
  std::vector<int> descriptors_of_others(std::size_t index) const;

 private:
  const JobOptions& options_;
  const std::string job_name_;
  const int attempt_;
  std::vector<File> files_;
};

}  // namespace unisono::launcher
