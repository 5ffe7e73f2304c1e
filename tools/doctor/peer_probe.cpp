#include "doctor/peer_probe.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "unisono/error.h"

namespace unisono::tools {
namespace {

using base::Deadline;
using Clock = std::chrono::steady_clock;

constexpr std::size_t secret_bytes = 64;
/// A message begins with its length; one of up to so many bytes comes back whole, a longer one is answered with a byte.
constexpr std::uint64_t longest_echo = 64;
constexpr std::size_t chunk = 256u << 10;
constexpr int round_trips = 200;
constexpr auto time_for_secret = std::chrono::seconds(2);
constexpr auto time_for_message = std::chrono::seconds(30);
/// Long messages grow until one takes so long; the first is more than a packet of any network.
constexpr auto long_enough = std::chrono::milliseconds(100);
constexpr std::uint64_t first_long = 256u << 10, last_long = 256u << 20;

bool move(int fd, std::span<char> bytes, const Deadline& deadline, bool is_send) {
  while (!bytes.empty()) {
    const auto done = is_send ? ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) : ::recv(fd, bytes.data(), bytes.size(), 0);
    if (done > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(done));
      continue;
    }
    if (done == 0 || (errno != EAGAIN && errno != EINTR)) return false;
    if (!base::wait_for(fd, is_send ? POLLOUT : POLLIN, deadline)) return false;
  }
  return true;
}

bool send_all(int fd, std::span<char> bytes, const Deadline& deadline) { return move(fd, bytes, deadline, true); }
bool receive_all(int fd, std::span<char> bytes, const Deadline& deadline) { return move(fd, bytes, deadline, false); }

std::array<char, secret_bytes> padded(const std::string& secret) {
  std::array<char, secret_bytes> bytes{};
  std::copy_n(secret.begin(), std::min(secret.size(), bytes.size()), bytes.begin());
  return bytes;
}

/// Sends a message of so many bytes and waits for the answer.
bool exchange(int fd, std::uint64_t length, const Deadline& deadline) {
  static std::vector<char> bytes(chunk);
  std::array<char, sizeof length> header{};
  std::memcpy(header.data(), &length, sizeof length);
  if (!send_all(fd, header, deadline)) return false;
  for (std::uint64_t left = length; left > 0;) {
    const auto now = static_cast<std::size_t>(std::min<std::uint64_t>(left, chunk));
    if (!send_all(fd, std::span(bytes).first(now), deadline)) return false;
    left -= now;
  }
  return receive_all(fd, std::span(bytes).first(length <= longest_echo ? static_cast<std::size_t>(length) : 1), deadline);
}

double seconds_of(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

ProbeServer::ProbeServer(const std::string& address, std::string secret) : secret_(std::move(secret)), stop_(::eventfd(0, EFD_CLOEXEC)) {
  auto opened = base::try_listen(base::resolve(address, 0).front());
  if (!opened.fd) throw Error(fmt::format("cannot listen at {}: {}", address, base::error_text(opened.error)));
  listening_ = std::move(opened.fd);
  port_ = base::local_address(listening_.get()).port();
  thread_ = base::Thread("the answers to other hosts", [this] { serve(); });
}

ProbeServer::~ProbeServer() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    if (connection_) ::shutdown(connection_.get(), SHUT_RDWR);
  }
  ::eventfd_write(stop_.get(), 1);
  thread_.join();
}

/// One connection at a time: no two hosts measure to the same one at once.
void ProbeServer::serve() {
  for (;;) {
    std::array<pollfd, 2> set{{{listening_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}}};
    ::poll(set.data(), set.size(), -1);
    if (set[1].revents != 0) return;
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
      connection_.reset(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    }
    if (connection_) answer(connection_.get());
    const std::lock_guard lock(mutex_);
    connection_.reset();
  }
}

void ProbeServer::answer(int connection) {
  base::set_no_delay(connection);
  std::array<char, secret_bytes> said{};
  if (!receive_all(connection, said, Deadline(time_for_secret)) || said != padded(secret_)) return;
  std::vector<char> bytes(chunk);
  for (;;) {
    const Deadline deadline(time_for_message);
    std::uint64_t length = 0;
    std::array<char, sizeof length> header{};
    if (!receive_all(connection, header, deadline)) return;
    std::memcpy(&length, header.data(), sizeof length);
    for (std::uint64_t left = length; left > 0;) {
      const auto now = static_cast<std::size_t>(std::min<std::uint64_t>(left, chunk));
      if (!receive_all(connection, std::span(bytes).first(now), deadline)) return;
      left -= now;
    }
    if (!send_all(connection, std::span(bytes).first(length <= longest_echo ? static_cast<std::size_t>(length) : 1), deadline)) return;
  }
}

Probe probe(const std::string& address, std::uint16_t port, const std::string& secret, std::chrono::milliseconds patience) {
  const auto there = base::resolve(address, port).front();
  auto opened = base::try_connect(there, Deadline(patience));
  if (!opened.fd) return {.outcome = Probe::Outcome::no_connection, .why = base::error_text(opened.error)};
  const int fd = opened.fd.get();
  base::set_no_delay(fd);
  std::array<char, secret_bytes> said = padded(secret);
  if (!send_all(fd, said, Deadline(patience)) || !exchange(fd, sizeof(double), Deadline(patience))) return {.outcome = Probe::Outcome::silent};
  std::vector<double> times;
  for (int i = 0; i < round_trips; ++i) {
    const auto start = Clock::now();
    if (!exchange(fd, sizeof(double), Deadline(patience))) return {.outcome = Probe::Outcome::silent};
    times.push_back(seconds_of(Clock::now() - start));
  }
  std::nth_element(times.begin(), times.begin() + round_trips / 2, times.end());
  Probe result{.latency_us = times[round_trips / 2] / 2 * 1e6};
  for (std::uint64_t length = first_long; length <= last_long; length *= 4) {
    const auto start = Clock::now();
    if (!exchange(fd, length, Deadline(patience))) {
      if (length == first_long) result.outcome = Probe::Outcome::small_only;
      break;  // a slow link: the message before has told
    }
    const auto time = Clock::now() - start;
    result.mebibytes_per_s = static_cast<double>(length) / (1u << 20) / seconds_of(time);
    if (time > long_enough) break;
  }
  return result;
}

}  // namespace unisono::tools
