#include "launch/job/rank_records.h"

#include <fmt/format.h>

#include <utility>

#include "base/socket.h"
#include "launch/process/program.h"
#include "recorder/dump.h"
#include "recorder/recorder.h"
#include "recorder/trace_file.h"

namespace unisono::launcher {

RankRecords::RankRecords(const JobOptions& options, std::string job_name, int attempt)
    : options_(options), job_name_(std::move(job_name)), attempt_(attempt), files_(static_cast<std::size_t>(options.ranks)) {}

RankRecords::File RankRecords::make(int rank, const std::string& name) const {
  const std::string& folder = options_.trace_folder;
  if (folder.empty()) return std::make_shared<const base::FileDescriptor>(recorder::make_record_file());
  base::Opened made = recorder::make_trace_file(folder, fmt::format("{}.{}.{}", job_name_, name, attempt_));
  if (!made.fd) throw StartFailed(fmt::format("no trace of rank {} can be written into {}: {}", rank, folder, error_text(made.error)), 1);
  return std::make_shared<const base::FileDescriptor>(std::move(made.fd));
}

void RankRecords::note_ended(std::size_t index) const {
  if (const File& file = files_[index]; file && *file) recorder::note_ended(file->get());
}

void RankRecords::keep(std::size_t index) const {
  const auto folder = options_.environment.get(recorder::folder_variable);
  if (folder && files_[index] && *files_[index]) recorder::dump_ended(*files_[index], *folder);
}

void RankRecords::keep_all() const {
  for (std::size_t i = 0; i < files_.size(); ++i) keep(i);
}

std::vector<recorder::RankSeen> RankRecords::read() const {
  std::vector<recorder::RankSeen> seen;
  for (const File& file : files_) {
    if (const auto reader = file && *file ? recorder::RecordReader::open(*file) : nullptr) seen.push_back(reader->read(0));
  }
  return seen;
}

std::vector<int> RankRecords::descriptors_of_others(std::size_t index) const {
  std::vector<int> all;
  for (std::size_t i = 0; i < files_.size(); ++i) {
    if (i != index && files_[i] && *files_[i]) all.push_back(files_[i]->get());
  }
  return all;
}

}  // namespace unisono::launcher
