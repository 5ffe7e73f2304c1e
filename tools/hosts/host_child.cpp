#include "hosts/host_child.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>

#include "base/socket.h"
#include "common/machine.h"
#include "common/child.h"
#include "common/text.h"
#include "unisono/error.h"

namespace unisono::tools {

base::FileDescriptor secret_file(const base::Secret& secret) {
  base::FileDescriptor file(static_cast<int>(::syscall(SYS_memfd_create, "unisono-secret", MFD_CLOEXEC)));
  const bool done =
      file && ::fchmod(file.get(), 0600) == 0 && ::write(file.get(), secret.view().data(), secret.size()) == static_cast<ssize_t>(secret.size());
  if (!done) throw launcher::StartFailed("cannot keep the job's secret in memory: " + launcher::error_text(errno), 1);
  return file;
}

bool is_pending(pid_t pid, int signal) {
  const auto pending = parse_number<std::uint64_t>(field_of(fmt::format("/proc/{}/status", pid), "ShdPnd:"), 16);
  return (pending.value_or(0) >> (signal - 1) & 1) != 0;
}

PipedChild start_host_child(const std::vector<std::string>& words, const base::FileDescriptor& secret, launcher::EnvironmentBlock& environment,
                            base::FileDescriptor& messages) {
  Pipe pipe;
  const std::array kept{pipe.writing.get(), secret.get()};
  std::vector<std::string> all{path_of_command(), "__launch"};
  for (const int fd : kept) all.push_back(std::to_string(fd));
  all.insert(all.end(), words.begin(), words.end());
  constexpr std::array default_signals{SIGPIPE};
  // Where this process ends first, the launcher is killed, and its watchdog then ends the ranks.
  PipedChild child = start_piped(all.front(), all, environment, {.default_signals = default_signals, .kept = kept});
  messages = std::move(pipe.reading);
  base::set_non_blocking(messages.get());
  return child;
}

Conducted& conducted() {
  static Conducted instance;
  return instance;
}

std::size_t conductor_words(const std::vector<std::string>& words) {
  constexpr std::size_t in_front = 4;  // __launch REPORT SECRET NAME
  return words.size() > in_front && words[0] == "__launch" ? in_front : 0;
}

void take_conductor_off(std::vector<std::string>& words) {
  const std::size_t in_front = conductor_words(words);
  if (in_front == 0) return;
  auto& [report, log_name] = conducted();
  const auto descriptor = [&](std::size_t i) {
    if (const auto fd = parse_number<int>(words[i])) return *fd;
    throw InvalidArgument(fmt::format("__launch: '{}' is no descriptor", words[i]));
  };
  report = descriptor(1);
  log_name = words[3];
  for (const int fd : {report, descriptor(2)})
    if (fd >= 0) base::set_close_on_exec(fd);
  words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(in_front));
}

}  // namespace unisono::tools
