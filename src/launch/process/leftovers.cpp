#include "launch/process/leftovers.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <string>

#include "base/secret.h"
#include "launch/process/pidfd.h"

namespace unisono::launcher {
namespace {

std::string contents(const std::string& path) {
  base::FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  constexpr std::size_t bytes_per_read = 32768;  // most environments are shorter
  char part[bytes_per_read];
  while (file) {
    const auto got = ::read(file.get(), part, sizeof part);
    if (got <= 0) break;
    text.append(part, static_cast<std::size_t>(got));
  }
  return text;
}

/// Returns false where the process is gone or a zombie.
bool is_alive(pid_t pid) {
  const std::string stat = contents("/proc/" + std::to_string(pid) + "/stat");
  const auto name_end = stat.rfind(')');  // the name may itself hold blanks and brackets
  if (name_end == std::string::npos || name_end + 2 >= stat.size()) return false;
  const char state = stat[name_end + 2];
  return state != 'Z' && state != 'X';
}

/// Every process of the host is asked at the end of every job. So no file is read of the kernel's threads, whose group is 0, and of other processes
/// the environment alone, which a zombie has none of.
bool belongs(pid_t pid, std::string_view mark, std::span<const pid_t> groups) {
  const pid_t group = ::getpgid(pid);
  if (group <= 0) return false;
  if (std::find(groups.begin(), groups.end(), group) != groups.end()) return is_alive(pid);
  std::string environment = contents("/proc/" + std::to_string(pid) + "/environ");
  const bool is_marked = environment.starts_with(mark.substr(1)) || environment.find(mark) != std::string::npos;
  base::wipe(environment);  // the job's token may be there
  return is_marked;
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
