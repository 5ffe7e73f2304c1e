#include "base/host.h"

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
#include <fstream>

#include <fmt/format.h>

#include "base/file_descriptor.h"
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

}  // namespace unisono::base
