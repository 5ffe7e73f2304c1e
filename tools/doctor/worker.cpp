#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <memory>
#include <mutex>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/file_descriptor.h"
#include "base/socket.h"
#include "base/thread.h"
#include "doctor/session.h"
#include "unisono/error.h"

namespace unisono::tools {
namespace {

using base::Deadline;
using Clock = std::chrono::steady_clock;

constexpr std::size_t secret_bytes = 64;
constexpr std::uint64_t longest_echo = 64;
constexpr std::size_t chunk = 256u << 10;
constexpr int round_trips = 200;
constexpr auto patience = std::chrono::seconds(5);  // for each answer of another host
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

std::array<char, secret_bytes> padded(const std::string& secret) {
  std::array<char, secret_bytes> bytes{};
  std::copy_n(secret.begin(), std::min(secret.size(), bytes.size()), bytes.begin());
  return bytes;
}

/// A message begins with its length.
bool move_length(int fd, std::uint64_t& length, const Deadline& deadline, bool is_send) {
  return move(fd, {reinterpret_cast<char*>(&length), sizeof length}, deadline, is_send);
}

/// Moves the bytes of a message, whatever they are.
bool move_body(int fd, std::uint64_t length, const Deadline& deadline, bool is_send) {
  thread_local std::vector<char> bytes(chunk);
  for (; length > 0; length -= std::min<std::uint64_t>(length, chunk))
    if (!move(fd, std::span(bytes).first(static_cast<std::size_t>(std::min<std::uint64_t>(length, chunk))), deadline, is_send)) return false;
  return true;
}

/// What comes back: a message of up to so many bytes whole, one byte of a longer one.
std::uint64_t answer_to(std::uint64_t length) { return length <= longest_echo ? length : 1; }

/// Sends a message of so many bytes and waits for the answer.
bool exchange(int fd, std::uint64_t length, const Deadline& deadline) {
  return move_length(fd, length, deadline, true) && move_body(fd, length, deadline, true) && move_body(fd, answer_to(length), deadline, false);
}

double seconds_of(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

/// Answers the measurements of other hosts, on a port of the system's choice. A connection that does not begin with the secret is closed.
class ProbeServer {
 public:
  /// Throws Error where the address cannot be listened on.
  ProbeServer(const std::string& address, std::string secret) : secret_(std::move(secret)), stop_(::eventfd(0, EFD_CLOEXEC)) {
    auto opened = base::try_listen(base::resolve(address, 0).front());
    if (!opened.fd) throw Error(fmt::format("cannot listen at {}: {}", address, base::error_text(opened.error)));
    listening_ = std::move(opened.fd);
    port_ = base::local_address(listening_.get()).port();
    thread_ = base::Thread("the answers to other hosts", [this] { serve(); });
  }

  ~ProbeServer() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      if (connection_) ::shutdown(connection_.get(), SHUT_RDWR);
    }
    ::eventfd_write(stop_.get(), 1);
    thread_.join();
  }

  ProbeServer(const ProbeServer&) = delete;
  ProbeServer& operator=(const ProbeServer&) = delete;
  std::uint16_t port() const { return port_; }

 private:
  /// One connection at a time: no two hosts measure to the same one at once.
  void serve() {
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

  void answer(int connection) {
    base::set_no_delay(connection);
    std::array<char, secret_bytes> said{};
    if (!move(connection, said, Deadline(time_for_secret), false) || said != padded(secret_)) return;
    for (;;) {
      const Deadline deadline(time_for_message);
      std::uint64_t length = 0;
      if (!move_length(connection, length, deadline, false) || !move_body(connection, length, deadline, false) ||
          !move_body(connection, answer_to(length), deadline, true))
        return;
    }
  }

  const std::string secret_;
  base::FileDescriptor listening_, stop_;
  std::uint16_t port_ = 0;
  std::mutex mutex_;
  base::FileDescriptor connection_;  ///< guarded by mutex_ where it changes
  bool stopping_ = false;
  base::Thread thread_;
};

/// Measures to a server that runs elsewhere.
Probe probe(const std::string& address, std::uint16_t port, const std::string& secret) {
  const auto there = base::resolve(address, port).front();
  auto opened = base::try_connect(there, Deadline(patience));
  if (!opened.fd) return {.outcome = Probe::Outcome::no_connection, .why = base::error_text(opened.error)};
  const int fd = opened.fd.get();
  base::set_no_delay(fd);
  std::array<char, secret_bytes> said = padded(secret);
  if (!move(fd, said, Deadline(patience), true) || !exchange(fd, sizeof(double), Deadline(patience))) return {.outcome = Probe::Outcome::silent};
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

/// Returns this host's address on the way by which ssh has come here, which the others are likely to reach as well.
std::optional<base::SocketAddress> route_of_ssh(const base::Environment& environment) {
  std::istringstream fields(environment.get("SSH_CONNECTION").value_or(""));
  std::string client, port, server;
  fields >> client >> port >> server;
  if (!base::is_numeric(server)) return std::nullopt;
  return base::resolve(server, 0).front();
}

class Worker {
 public:
  Json answer(const Json& request) {
    const std::string what = request.at("do");
    if (what == "clock") return {{"clock", std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count()}};
    if (what == "measure") return measure(request);
    return inspect(request);
  }

 private:
  Json inspect(const Json& request) {
    const base::Environment& environment = base::Environment::process();
    std::optional<base::SocketAddress> route;
    if (request.at("by ssh")) route = route_of_ssh(environment);
    else if (const std::string seen = request.at("seen as"); base::is_numeric(seen)) route = base::resolve(seen, 0).front();
    Json facts = inspect_host(environment, route, Reach::several_hosts, request.at("ranks"));
    const std::string address = facts.at("address");
    if (address.empty()) return facts;
    try {
      server_ = std::make_unique<ProbeServer>(address, request.at("secret"));
      facts["port"] = server_->port();
    } catch (const Error& error) {
      facts["findings"].push_back(Finding{.about = "port", .text = error.message(), .advice = "UNISONO_INTERFACE chooses another address"});
    }
    return facts;
  }

  static Json measure(const Json& request) {
    const Probe result = probe(request.at("address"), request.at("port"), request.at("secret"));
    return {{"outcome", static_cast<int>(result.outcome)},
            {"why", result.why},
            {"latency_us", result.latency_us},
            {"mebibytes_per_s", result.mebibytes_per_s}};
  }

  std::unique_ptr<ProbeServer> server_;
};

}  // namespace

int serve_as_doctor() {
  Worker worker;
  for (std::string line; std::getline(std::cin, line);) {
    const Json request = Json::parse(line, nullptr, false);
    if (request.is_discarded()) return 1;
    std::cout << worker.answer(request).dump() << std::endl;
  }
  return 0;
}

}  // namespace unisono::tools
