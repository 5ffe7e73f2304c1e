#include "launch/process/system_wait.h"

#include <linux/futex.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "base/printable.h"

namespace unisono::launcher {
namespace {

/// A call of the system in which a thread is.
struct SystemCall {
  long number = -1;
  std::array<std::uint64_t, 3> arguments{};
};

std::string folder_of(int pid) { return "/proc/" + std::to_string(pid); }

/// See proc(5): the number and the arguments; "running" where the thread is in none.
std::optional<SystemCall> call_of(int pid) {
  std::ifstream file(folder_of(pid) + "/syscall");
  SystemCall call;
  if (!(file >> call.number) || call.number < 0) return std::nullopt;
  for (std::uint64_t& argument : call.arguments) {
    if (!(file >> std::hex >> argument)) return std::nullopt;
  }
  return call;
}

bool read_memory(int pid, std::uint64_t address, void* to, std::size_t bytes) {
  const iovec own{to, bytes}, its{reinterpret_cast<void*>(address), bytes};
  return ::process_vm_readv(pid, &own, 1, &its, 1, 0) == static_cast<ssize_t>(bytes);
}

/// Returns a text of the process's memory that ends with a null character.
std::string text_at(int pid, std::uint64_t address) {
  constexpr std::size_t most = 4096;
  std::string text;
  for (char c = 0; text.size() < most && read_memory(pid, address + text.size(), &c, 1) && c != '\0';) text += c;
  return text;
}

bool is_named_pipe(const std::string& path) {
  struct stat about {};
  return ::stat(path.c_str(), &about) == 0 && S_ISFIFO(about.st_mode);
}

/// Returns what a descriptor of the process leads to: "the named pipe /tmp/part2".
std::string file_text(int pid, std::uint64_t descriptor) {
  const std::string link = folder_of(pid) + "/fd/" + std::to_string(static_cast<int>(descriptor));
  std::error_code error;
  const std::string target = std::filesystem::read_symlink(link, error).native();
  if (error) return "a file";
  if (target.starts_with("pipe:")) return "a pipe";
  if (target.starts_with("socket:")) return "a socket";
  return (is_named_pipe(link) ? "the named pipe " : "") + base::printable(target);
}

std::string opened_text(int pid, std::uint64_t address) {
  const std::string path = text_at(pid, address);
  if (path.empty()) return "opens a file";
  std::error_code error;
  const auto folder = std::filesystem::read_symlink(folder_of(pid) + "/cwd", error);
  const std::string whole = (folder / path).native();
  const std::string shown = base::printable(path);
  return is_named_pipe(whole) ? fmt::format("waits to open the named pipe {} until another process opens its other end", shown)
                              : fmt::format("opens {}", shown);
}

// A mutex of the C library is locked by the value 2 while somebody waits; behind the word and a counter lies the thread that has locked it.
std::string futex_text(int pid, const SystemCall& call) {
  std::uint32_t operation = static_cast<std::uint32_t>(call.arguments[1]) & static_cast<std::uint32_t>(FUTEX_CMD_MASK);
  constexpr std::uint64_t contended = 2, owner_behind = 8;
  if (operation != FUTEX_WAIT || call.arguments[2] != contended) return "waits for another thread of its process";
  std::int32_t owner = 0;
  if (!read_memory(pid, call.arguments[0] + owner_behind, &owner, sizeof owner)) return "waits for a mutex";
  if (owner == pid) return "waits for a mutex that it has locked itself";
  std::error_code error;
  if (owner > 0 && std::filesystem::exists(folder_of(pid) + "/task/" + std::to_string(owner), error))
    return fmt::format("waits for a mutex that thread {} of its process has locked", owner);
  return "waits for a mutex";
}

std::string sleeping_text(long number) {
  switch (number) {
    case SYS_nanosleep:
    case SYS_clock_nanosleep: return "sleeps";
    case SYS_wait4:
    case SYS_waitid: return "waits for a process that it has started";
    case SYS_rt_sigsuspend:
    case SYS_rt_sigtimedwait:
#if defined(SYS_pause)
    case SYS_pause:
#endif
      return "waits for a signal";
#if defined(SYS_poll)
    case SYS_poll:
    case SYS_select:
    case SYS_epoll_wait:
#endif
    case SYS_ppoll:
    case SYS_pselect6:
    case SYS_epoll_pwait: return "waits until one of its files or sockets is ready";
    default: return {};
  }
}

}  // namespace

std::string system_wait_of(int pid) {
  const auto call = call_of(pid);
  if (!call) return {};
  const auto& arguments = call->arguments;
  switch (call->number) {
    case SYS_futex: return futex_text(pid, *call);
    case SYS_read:
    case SYS_readv:
    case SYS_pread64:
    case SYS_recvfrom:
    case SYS_recvmsg: return "reads " + file_text(pid, arguments[0]);
    case SYS_write:
    case SYS_writev:
    case SYS_pwrite64:
    case SYS_sendto:
    case SYS_sendmsg: return "writes to " + file_text(pid, arguments[0]);
    case SYS_accept:
    case SYS_accept4: return "waits for a connection";
    case SYS_connect: return "connects " + file_text(pid, arguments[0]);
    case SYS_flock:
    case SYS_fcntl: return "waits for a lock on " + file_text(pid, arguments[0]);
    case SYS_fsync:
    case SYS_fdatasync: return fmt::format("waits until {} is on the disk", file_text(pid, arguments[0]));
    case SYS_openat: return opened_text(pid, arguments[1]);
#if defined(SYS_open)
    case SYS_open: return opened_text(pid, arguments[0]);
#endif
    default: return sleeping_text(call->number);
  }
}

}  // namespace unisono::launcher
