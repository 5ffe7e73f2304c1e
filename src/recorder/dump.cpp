#include "recorder/dump.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/files.h"
#include "base/log.h"
#include "recorder/layout.h"
#include "recorder/reader.h"

namespace unisono::recorder {
namespace {

bool belongs_in_name(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_'; }

}  // namespace

std::string file_name_of(std::string_view job, int rank, pid_t pid) {
  std::string name(job);
  std::ranges::replace_if(
      name, [](char c) { return !belongs_in_name(c); }, '_');
  return (name.empty() ? "job" : name) + "." + std::to_string(rank) + "." + std::to_string(pid) + std::string(file_ending);
}

void DumpFile::prepare(const std::string& folder, const std::string& name) {
  std::error_code error;
  const auto absolute = std::filesystem::absolute(folder, error);
  std::filesystem::create_directories(absolute, error);
  const std::string path = (absolute / name).native();
  const std::string new_path = path + ".new";
  const bool fits = new_path.size() < new_path_.size();
  if (!fits || ::access(absolute.c_str(), W_OK | X_OK) != 0) {
    const std::string why = fits ? std::error_code(errno, std::generic_category()).message() : "the name is too long";
    base::warn("no record can be written into " + folder + ", which " + folder_variable + " names: " + why);
    return;
  }
  std::ranges::copy(path, path_.begin());
  std::ranges::copy(new_path, new_path_.begin());
  is_prepared_.store(true, std::memory_order_release);
}

bool DumpFile::write(const void* memory, std::size_t bytes) noexcept {
  if (!is_prepared() || is_busy_.exchange(true)) return false;
  bool is_written = false;
  constexpr mode_t for_its_user = 0600;
  const int fd = base::open_to_write(new_path_.data(), for_its_user);
  if (fd >= 0) {
    is_written = base::write_all(fd, static_cast<const char*>(memory), bytes);
    is_written = ::close(fd) == 0 && is_written;
    if (is_written) is_written = ::rename(new_path_.data(), path_.data()) == 0;
    else ::unlink(new_path_.data());
  }
  is_busy_.store(false);
  return is_written;
}

void dump_ended(const base::FileDescriptor& kept, const std::string& folder) {
  const auto copy = copy_of(kept);
  if (!copy) return;
  auto& header = *static_cast<RecordHeader*>(copy->memory.get());
  if (header.in_job.rank.load() < 0) return;  // it has joined nothing
  const std::string name = file_name_of(header.job.get(), header.in_job.rank.load(), header.pid.load());
  std::error_code ignored;
  if (std::filesystem::exists(std::filesystem::path(folder) / name, ignored)) return;
  const auto state = static_cast<RankState>(header.state.load());
  if (state == RankState::joining || state == RankState::running) header.state.store(static_cast<std::uint32_t>(RankState::ended));
  header.note_clock();
  DumpFile file;
  file.prepare(folder, name);
  file.write(&header, copy->bytes);
}

}  // namespace unisono::recorder
