#include "launch/process/host.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/affinity.h"
#include "launch/process/program.h"

namespace unisono::launcher {
namespace {

/// The change that all DescriptorLimits of the process have made together.
struct {
  std::mutex mutex;
  std::size_t needed = 0;    ///< by all of them
  std::size_t original = 0;  ///< 0: nothing was changed
} raised;

}  // namespace

std::vector<int> allowed_cpus() {
  std::vector<int> cpus = base::affinity_of(0);
  if (cpus.empty()) {
    for (unsigned cpu = 0; cpu < std::max(1u, std::thread::hardware_concurrency()); ++cpu) cpus.push_back(static_cast<int>(cpu));
  }
  return cpus;
}

std::string random_id() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw StartFailed("cannot get random bytes: " + error_text(errno), 1);
  }
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

PortReservation::PortReservation(std::uint16_t port) : PortReservation(base::resolve("127.0.0.1", port).front()) {}

PortReservation::PortReservation(const base::SocketAddress& address)
    : socket_(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0)), port_(address.port()) {
  const int yes = 1;
  const bool done = socket_ && ::setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
                    ::bind(socket_.get(), address.data(), address.size()) == 0;
  if (!done) throw StartFailed("cannot reserve " + describe(address) + ": " + error_text(errno), 1);
  port_ = base::local_address(socket_.get()).port();
}

PortReservation PortReservation::near(const base::SocketAddress& address, int port) {
  if (port > 0 && port <= highest_port) {
    try {
      return PortReservation(address.with_port(static_cast<std::uint16_t>(port)));
    } catch (const StartFailed&) {  // NOLINT(bugprone-empty-catch): another process uses it
    }
  }
  return PortReservation(address.with_port(0));
}

void open_standard_descriptors() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    // `fd` is the lowest free number, so open returns it. It stands for a standard stream and is therefore not CLOEXEC.
    [[maybe_unused]] const int opened = ::open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY);
  }
}

std::vector<int> open_descriptors() {
  std::vector<int> all;
  std::error_code error;
  // The first thread of the process may have ended, and the folder of the process is empty then.
  for (std::filesystem::directory_iterator entry("/proc/thread-self/fd", error), end; !error && entry != end; entry.increment(error))
    all.push_back(std::stoi(entry->path().filename().string()));
  std::erase_if(all, [](int fd) { return ::fcntl(fd, F_GETFD) < 0; });  // that of the folder itself
  return all;
}

DescriptorLimit::DescriptorLimit(std::size_t needed) : needed_(needed) {
  const std::lock_guard lock(raised.mutex);
  const std::size_t all = raised.needed + needed;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < all) {
    if (limit.rlim_max < all) {
      throw StartFailed(
          "this many ranks need " + std::to_string(all) + " open descriptors, the limit is " + std::to_string(limit.rlim_max) + " (ulimit -n)", 1);
    }
    if (raised.original == 0) raised.original = limit.rlim_cur;
    limit.rlim_cur = all;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
  raised.needed = all;
  original_ = raised.original;
}

DescriptorLimit::~DescriptorLimit() {
  const std::lock_guard lock(raised.mutex);
  raised.needed -= needed_;
  rlimit limit{};
  if (raised.needed > 0 || raised.original == 0 || ::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::exchange(raised.original, 0);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace unisono::launcher
