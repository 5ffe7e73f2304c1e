#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "base/socket.h"

namespace unisono::testing {

inline base::FileDescriptor connected_to(std::uint16_t port) {
  return base::try_connect(base::resolve("127.0.0.1", port).front(), base::Deadline(std::chrono::seconds(10))).fd;
}

inline void send_text(const base::FileDescriptor& fd, std::string_view text) {
  while (!text.empty()) {
    if (!base::wait_for(fd.get(), POLLOUT, base::Deadline(std::chrono::seconds(10)))) return;
    const auto done = ::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL);
    if (done < 0) return;
    text.remove_prefix(static_cast<std::size_t>(done));
  }
}

/// All that comes until the other side closes; what has come, where it does not within a time.
inline std::string answer_on(const base::FileDescriptor& fd) {
  const base::Deadline deadline(std::chrono::seconds(20));
  std::string answer;
  std::array<char, 65536> bytes{};
  while (base::wait_for(fd.get(), POLLIN, deadline)) {
    const auto got = ::recv(fd.get(), bytes.data(), bytes.size(), 0);
    if (got <= 0) return answer;
    answer.append(bytes.data(), static_cast<std::size_t>(got));
  }
  return answer + " … and it did not close";
}

/// The answer to a request; nothing where nobody listens at the port.
inline std::string answer_to(std::uint16_t port, std::string_view request) {
  const base::FileDescriptor fd = connected_to(port);
  if (!fd) return {};
  send_text(fd, request);
  return answer_on(fd);
}

inline constexpr const char* open_metrics_type = "application/openmetrics-text";

inline std::string get(std::uint16_t port, const std::string& path = "/metrics", const std::string& accept = open_metrics_type) {
  return answer_to(port, "GET " + path + " HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(port) + "\r\nAccept: " + accept + "\r\n\r\n");
}

inline std::string first_line(const std::string& answer) { return answer.substr(0, answer.find("\r\n")); }
inline std::string body_of(const std::string& answer) {
  const auto end = answer.find("\r\n\r\n");
  return end == std::string::npos ? "" : answer.substr(end + 4);
}

}  // namespace unisono::testing
