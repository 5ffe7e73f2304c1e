#include "launch/leftovers.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <string>

#include "launch/pidfd.h"

namespace unisono::launcher {
namespace {

std::string contents(const std::string& path) {
  base::FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  constexpr std::size_t bytes_per_read = 4096;
  char part[bytes_per_read];
  while (file) {
    const auto got = ::read(file.get(), part, sizeof part);
    if (got <= 0) break;
    text.append(part, static_cast<std::size_t>(got));
  }
  return text;
}

/// Returns the process group of a living process, or 0 where the process is gone or a zombie.
pid_t living_group_of(pid_t pid) {
  const std::string stat = contents("/proc/" + std::to_string(pid) + "/stat");
  const auto name_end = stat.rfind(')');  // the name may itself hold blanks and brackets
  if (name_end == std::string::npos || name_end + 4 >= stat.size()) return 0;
  const char state = stat[name_end + 2];
  if (state == 'Z' || state == 'X') return 0;
  const auto parent = stat.find(' ', name_end + 3);
  const auto group = parent == std::string::npos ? parent : stat.find(' ', parent + 1);
  pid_t value = 0;
  if (group != std::string::npos) std::from_chars(stat.data() + group + 1, stat.data() + stat.size(), value);
  return value;
}

bool belongs(pid_t pid, std::string_view mark, std::span<const pid_t> groups) {
  const pid_t group = living_group_of(pid);
  if (group == 0) return false;
  if (std::find(groups.begin(), groups.end(), group) != groups.end()) return true;
  const std::string environment = contents("/proc/" + std::to_string(pid) + "/environ");
  return environment.starts_with(mark.substr(1)) || environment.find(mark) != std::string::npos;
}

}  // namespace

void Leftover::send(int signal) const noexcept { signal_pidfd(pidfd, signal); }

std::vector<Leftover> find_leftovers(std::string_view job_id, std::span<const pid_t> groups) {
  std::vector<Leftover> found;
  const std::string mark = fmt::format("{0}UNISONO_JOB_ID={1}{0}", '\0', job_id);
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc"), ::closedir);
  if (!folder) return found;
  const pid_t self = ::getpid();
  while (const dirent* entry = ::readdir(folder.get())) {
    pid_t pid = 0;
    const std::string_view name(entry->d_name);
    const auto [stop, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error != std::errc() || stop != name.data() + name.size() || pid == self) continue;
    if (!belongs(pid, mark, groups)) continue;
    base::FileDescriptor pidfd = open_pidfd(pid);
    // Another process may have got the number between the first check and open_pidfd. The descriptor pins it, so the check is repeated.
    if (pidfd && belongs(pid, mark, groups)) found.push_back({pid, std::move(pidfd)});
  }
  return found;
}

}  // namespace unisono::launcher
