#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "base/socket.h"

namespace unisono::testing {

/// Stands between a store and etcd, and does to each request what a test says: passes it on, answers it in etcd's place, or loses the answer.
class GatewayProxy {
 public:
  struct Decision {
    enum class Kind { pass, answer, lose } kind = Kind::pass;
    std::string answer = {};  ///< the bytes of an HTTP answer
  };
  struct Request {
    std::string path, body;
    int before = 0;  ///< requests of that path

    /// A transaction with conditions that puts or erases.
    bool is_change() const { return path == "/v3/kv/txn" && body.find("\"compare\":[{") != std::string::npos; }
  };
  using Rule = std::function<Decision(const Request& request)>;

  static std::string http(int status, std::string_view body) {
    return fmt::format("HTTP/1.1 {} Said\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}", status, body.size(),
                       body);
  }

  GatewayProxy(std::string etcd, Rule rule) : etcd_(std::move(etcd)), rule_(std::move(rule)) {
    listener_ = base::try_listen(base::resolve("127.0.0.1", 0).front()).fd;
    port_ = base::local_address(listener_.get()).port();
    accepting_ = std::thread([this] { accept(); });
  }
  ~GatewayProxy() {
    stop_ = true;
    accepting_.join();
    for (std::thread& thread : serving_) thread.join();
  }
  GatewayProxy(const GatewayProxy&) = delete;
  GatewayProxy& operator=(const GatewayProxy&) = delete;

  std::string endpoint() const { return fmt::format("127.0.0.1:{}", port_); }
  int decided() const { return decided_; }  ///< how many requests were not passed on

 private:
  static constexpr int period_ms = 50;

  void accept() {
    while (!stop_) {
      if (!base::wait_for(listener_.get(), POLLIN, base::Deadline(std::chrono::milliseconds(period_ms)))) continue;
      const int fd = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
      if (fd >= 0) serving_.emplace_back([this, fd] { serve(base::FileDescriptor(fd)); });
    }
  }

  /// The bytes of one request; empty where the client goes.
  std::string request(int fd) const {
    std::string all;
    for (std::size_t whole = std::string::npos; all.size() < whole;) {
      if (!receive(fd, all)) return {};
      const auto head = all.find("\r\n\r\n");
      if (head == std::string::npos) continue;
      const auto length = all.find("Content-Length: ");
      whole = head + 4 + (length == std::string::npos ? 0 : std::stoul(all.substr(length + 16)));
    }
    return all;
  }
  bool receive(int fd, std::string& all) const {
    std::array<char, 1 << 16> bytes;
    while (!stop_) {
      pollfd waiting{fd, POLLIN, 0};
      if (::poll(&waiting, 1, period_ms) <= 0) continue;
      const ssize_t n = ::recv(fd, bytes.data(), bytes.size(), 0);
      if (n < 0 && errno == EAGAIN) continue;
      if (n <= 0) return false;
      all.append(bytes.data(), static_cast<std::size_t>(n));
      return true;
    }
    return false;
  }
  static bool send_all(int fd, std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n < 0 && errno == EAGAIN) {
        pollfd waiting{fd, POLLOUT, 0};
        ::poll(&waiting, 1, period_ms);
        continue;
      }
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
  }

  Decision decide(Request request) {
    const std::lock_guard lock(mutex_);
    for (const std::string& earlier : paths_) request.before += earlier == request.path;
    paths_.push_back(request.path);
    Decision decision = rule_(request);
    if (decision.kind != Decision::Kind::pass) ++decided_;
    return decision;
  }

  /// Serves a single request of each connection.
  void serve(base::FileDescriptor client) {
    std::string asked = request(client.get());
    if (asked.empty()) return;
    const auto first = asked.find(' ') + 1;
    const Decision decision = decide({asked.substr(first, asked.find(' ', first) - first), asked.substr(asked.find("\r\n\r\n"))});
    if (decision.kind == Decision::Kind::answer) {
      send_all(client.get(), decision.answer);
      return;
    }
    const auto colon = etcd_.rfind(':');
    const base::FileDescriptor server =
        base::try_connect(base::resolve(etcd_.substr(0, colon), static_cast<std::uint16_t>(std::stoi(etcd_.substr(colon + 1)))).front(),
                          base::Deadline(std::chrono::seconds(10)))
            .fd;
    if (!server) return;
    asked.insert(asked.find("\r\n") + 2, "Connection: close\r\n");
    send_all(server.get(), asked);
    for (std::string answer; receive(server.get(), answer); answer.clear()) {
      if (decision.kind == Decision::Kind::pass && !send_all(client.get(), answer)) return;
    }
  }

  const std::string etcd_;
  const Rule rule_;
  base::FileDescriptor listener_;
  std::uint16_t port_ = 0;
  std::atomic<bool> stop_ = false;
  std::atomic<int> decided_ = 0;
  std::mutex mutex_;
  std::vector<std::string> paths_;
  std::list<std::thread> serving_;
  std::thread accepting_;
};

}  // namespace unisono::testing
