#include "base/host.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <system_error>

#include <fmt/format.h>

#include "base/socket.h"

namespace unisono::base {

std::string host_name() {
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) != 0 || name[0] == '\0') return "localhost";
  return name;
}

std::string_view kernel_of(std::string_view machine) { return machine.substr(0, machine.find('/')); }

std::string_view network_of(std::string_view machine) { return machine.substr(0, machine.rfind('/')); }

std::uint64_t namespace_number(const std::string& kind) {
  struct stat status {};
  return ::stat(("/proc/self/ns/" + kind).c_str(), &status) == 0 ? status.st_ino : 0;
}

const std::string& machine_id() {
  static const std::string& id = *new const std::string([] {
    std::string text;
    std::ifstream file("/proc/sys/kernel/random/boot_id");
    if (!(file >> text)) text = host_name();
    for (const char* kind : {"net", "pid"}) {
      const std::uint64_t number = namespace_number(kind);
      text.append("/").append(number == 0 ? "?" : std::to_string(number));
    }
    return text;
  }());
  return id;
}

namespace {

/// Each returns the errno of its call; 0: the call works.
int error_of(int fd) {
  const int error = errno;
  const FileDescriptor opened(fd);
  return opened ? 0 : error;
}

FileDescriptor own_handle() { return FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0))); }

int try_waitid() {
  const FileDescriptor own = own_handle();
  siginfo_t info{};
  if (!own || ::waitid(P_PIDFD, static_cast<id_t>(own.get()), &info, WEXITED | WNOHANG | WNOWAIT) == 0) return 0;
  return errno == ECHILD ? 0 : errno;  // a process is not its own child
}

int try_signal() {
  const FileDescriptor own = own_handle();
  return !own || ::syscall(SYS_pidfd_send_signal, own.get(), 0, nullptr, 0) == 0 ? 0 : errno;
}

int try_signalfd() {
  sigset_t none;
  ::sigemptyset(&none);
  return error_of(::signalfd(-1, &none, SFD_CLOEXEC));
}

int try_socketpair() {
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return errno;
  for (const int end : ends) ::close(end);
  return 0;
}

struct EssentialCall {
  std::string_view name, use;
  int (*try_it)();
};

constexpr std::array essential = {
    EssentialCall{"memfd_create", "makes the memory that the ranks of a host share",
                  [] { return error_of(::memfd_create("unisono-trial", MFD_CLOEXEC)); }},
    EssentialCall{"pidfd_open", "sees that a process has ended", [] { return error_of(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0))); }},
    EssentialCall{"waitid", "learns how a rank has ended", try_waitid},
    EssentialCall{"pidfd_send_signal", "ends a rank, and no other process that has got its number", try_signal},
    EssentialCall{"signalfd", "receives signals", try_signalfd},
    EssentialCall{"epoll_create1", "waits for connections", [] { return error_of(::epoll_create1(EPOLL_CLOEXEC)); }},
    EssentialCall{"eventfd", "wakes its threads", [] { return error_of(::eventfd(0, EFD_CLOEXEC)); }},
    EssentialCall{"socketpair", "connects ranks with their launcher", try_socketpair},
};

constexpr std::uint64_t low_half = 0xffffffffU;

/// Returns a field of the line, as proc(5) counts them, from the state, which is the third, on; 0: it is not there.
std::uint64_t field_of(const std::string& stat, int number) {
  std::istringstream fields(stat);
  std::string field;
  constexpr int state_field = 3;
  for (int i = state_field; i <= number; ++i) {
    if (!(fields >> field)) return 0;
  }
  return std::stoull(field);
}

/// Returns the start time of a process in ticks since the system started; 0: the process is gone, or /proc does not say.
std::uint64_t started_at(const std::string& stat) {
  constexpr int start_time = 22;
  return field_of(stat, start_time) & low_half;
}

std::uint64_t pid_namespace() { return namespace_number("pid") & (low_half >> 1); }

/// Returns the number that a process has in its own PID namespace; -1: /proc does not say.
pid_t innermost_number(const std::filesystem::path& process) {
  std::ifstream file(process / "status");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("NSpid:")) continue;
    std::istringstream numbers(line.substr(sizeof "NSpid:" - 1));
    pid_t number = -1;
    for (pid_t next = 0; numbers >> next;) number = next;
    return number;
  }
  return -1;
}

struct Handles {
  std::mutex mutex;
  std::map<pid_t, std::weak_ptr<const FileDescriptor>> open;
};
Handles& handles() {
  static Handles& instance = *new Handles;  // never destroyed: threads may use it while the process ends
  return instance;
}

bool has_ended(const FileDescriptor& handle) {
  pollfd entry{handle.get(), POLLIN, 0};
  return ::poll(&entry, 1, 0) > 0;
}

}  // namespace

std::string RefusedCall::text() const { return fmt::format("this system refuses {} ({}), by which unisono {}", name, error_text(error), use); }

std::vector<RefusedCall> refused_calls() {
  std::vector<RefusedCall> refused;
  for (const EssentialCall& call : essential) {
    if (const int error = call.try_it(); !remedy_of_refusal(call.name, error).empty()) refused.push_back({call.name, call.use, error});
  }
  return refused;
}

std::string remedy_of_refusal(std::string_view call, int error) {
  if (error != EPERM && error != EACCES && error != ENOSYS && error != EINVAL) return {};
  return fmt::format("allow {} in the container's filter of system calls (seccomp), or use Linux 5.4 or newer", call);
}

std::string stat_after_name(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  const auto name_end = text.rfind(')');
  return name_end == std::string::npos || name_end + 2 > text.size() ? std::string() : text.substr(name_end + 2);
}

bool is_descendant(pid_t pid, pid_t ancestor) {
  constexpr int most_generations = 1000;  // processes end meanwhile and their numbers are used again, so the search is bounded
  for (int i = 0; i < most_generations && pid > 1; ++i) {
    std::istringstream fields(stat_after_name(pid));
    char state = 0;
    if (!(fields >> state >> pid)) return false;
    if (pid == ancestor) return true;
  }
  return false;
}

std::string name_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

std::uint64_t program_of(const std::string& stat) {
  constexpr int start_of_code = 26, start_of_stack = 28;
  const std::uint64_t stack = field_of(stat, start_of_stack);
  return stack == 0 ? 0 : field_of(stat, start_of_code) ^ stack;
}

std::int64_t own_life() { return life_of(::getpid()); }

std::int64_t life_of(pid_t pid) {
  const std::uint64_t space = pid_namespace();
  const std::uint64_t start = started_at(stat_after_name(pid));
  return space == 0 || start == 0 ? 0 : static_cast<std::int64_t>(space << 32 | start);
}

bool has_ended(pid_t pid, std::int64_t life) {
  const auto bits = static_cast<std::uint64_t>(life);
  if (life == 0 || bits >> 32 != pid_namespace()) return false;
  const std::string stat = stat_after_name(pid);
  return stat.empty() || stat[0] == 'Z' || started_at(stat) != (bits & low_half);
}

pid_t number_here(pid_t pid, std::int64_t life) {
  const auto bits = static_cast<std::uint64_t>(life);
  if (life == 0 || bits >> 32 == pid_namespace()) return pid;
  std::error_code ignored;
  for (const auto& process : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::string name = process.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos || innermost_number(process.path()) != pid) continue;
    struct stat space {};
    if (::stat((process.path() / "ns/pid").c_str(), &space) != 0 || (space.st_ino & (low_half >> 1)) != bits >> 32) continue;
    const auto here = static_cast<pid_t>(std::stol(name));
    if (started_at(stat_after_name(here)) == (bits & low_half)) return here;
  }
  return -1;
}

std::shared_ptr<const FileDescriptor> handle_on_process(pid_t pid) {
  const std::lock_guard lock(handles().mutex);
  auto& open = handles().open;
  // The number of a process that has ended may belong to another process by now.
  if (const auto found = open.find(pid); found != open.end()) {
    if (auto handle = found->second.lock(); handle && !has_ended(*handle)) return handle;
  }
  FileDescriptor fresh(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  const int error = errno;
  std::erase_if(open, [](const auto& entry) { return entry.second.expired(); });
  if (!fresh) {
    errno = error;
    return nullptr;
  }
  auto handle = std::make_shared<const FileDescriptor>(std::move(fresh));
  open[pid] = handle;
  return handle;
}

}  // namespace unisono::base
