#include "launch/view/http_server.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <exception>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "base/socket.h"
#include "launch/process/program.h"

namespace unisono::launcher {
namespace {

constexpr std::chrono::milliseconds rest_after_failure{100};
constexpr std::string_view end_of_head = "\r\n\r\n";

std::string answer_of(std::string_view status, std::string_view type, std::string_view body, std::string_view more = {}) {
  return fmt::format(
      "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n{}Connection: "
      "close\r\n\r\n{}",
      status, type, body.size(), more, body);
}

std::string refusal(std::string_view status, std::string_view more = {}) {
  return answer_of(status, "text/plain; charset=utf-8", fmt::format("{}\n", status), more);
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
  while (text.ends_with(' ') || text.ends_with('\t')) text.remove_suffix(1);
  return text;
}

/// Takes the part before the next `end` from the text, and the `end` with it.
std::string_view part_before(std::string_view& text, char end) {
  const std::string_view part = text.substr(0, text.find(end));
  text.remove_prefix(std::min(part.size() + 1, text.size()));
  return trimmed(part);
}

/// Returns a host without its port: "[::1]:80" is "[::1]".
std::string_view without_port(std::string_view host) {
  const auto colon = host.rfind(':');
  const auto bracket = host.rfind(']');
  return colon == std::string_view::npos || (bracket != std::string_view::npos && colon < bracket) ? host : host.substr(0, colon);
}

/// A page of the web whose name leads to this address would name itself here, and is not to read what only this host may.
bool is_this_host_by_loopback(const std::string& host) {
  return host.empty() || host == "localhost" || host == "[::1]" || (host.starts_with("127.") && base::is_numeric(host));
}

}  // namespace

std::optional<HttpRequest> parse_http(std::string_view head) {
  const auto take_line = [&] {
    const auto end = std::min(head.find("\r\n"), head.size());
    const std::string_view line = head.substr(0, end);
    head.remove_prefix(std::min(end + 2, head.size()));
    return line;
  };
  const std::string_view line = take_line();
  const auto first = line.find(' '), last = line.rfind(' ');
  if (first == std::string_view::npos || first == 0 || last <= first + 1) return std::nullopt;
  const std::string_view version = line.substr(last + 1), target = line.substr(first + 1, last - first - 1);
  if (version != "HTTP/1.1" && version != "HTTP/1.0") return std::nullopt;
  if (!target.starts_with('/') || target.find(' ') != std::string_view::npos) return std::nullopt;
  HttpRequest request{
      .method = std::string(line.substr(0, first)), .path = std::string(target.substr(0, target.find('?'))), .host = {}, .accept = {}};
  while (!head.empty()) {
    const std::string_view field = take_line();
    const auto colon = field.find(':');
    if (colon == std::string_view::npos || colon == 0) return std::nullopt;
    const std::string name = lower(field.substr(0, colon)), value = lower(trimmed(field.substr(colon + 1)));
    if (name == "host") request.host = without_port(value);
    if (name == "accept") request.accept += (request.accept.empty() ? "" : ",") + value;  // several fields are one list
  }
  return request;
}

double weight_of_type(std::string_view accept, std::string_view type) {
  double greatest = 0;
  while (!accept.empty()) {
    std::string_view range = part_before(accept, ',');
    if (part_before(range, ';') != type) continue;
    double weight = 1;
    while (!range.empty()) {
      std::string_view value = part_before(range, ';');
      if (part_before(value, '=') != "q") continue;
      value = trimmed(value);
      if (std::from_chars(value.data(), value.data() + value.size(), weight).ec != std::errc()) weight = 0;
    }
    greatest = std::max(greatest, weight);
  }
  return greatest;
}

HttpServer::HttpServer(std::uint16_t port, Page page, const Limits& limits) : page_(std::move(page)), limits_(limits) {
  const base::SocketAddress address = base::resolve("127.0.0.1", port).front();
  base::Opened opened = base::try_listen(address);
  if (!opened.fd) throw StartFailed(fmt::format("cannot listen on {}: {}", base::describe(address), base::error_text(opened.error)), 1);
  listening_ = std::move(opened.fd);
  port_ = base::local_address(listening_.get()).port();
  thread_ = base::Thread("the server of metrics", [this] { serve(); });
}

HttpServer::~HttpServer() {
  stop_.notify();
  thread_.join();
}

/// Nobody else depends on this thread: where it fails, the page is gone and the job goes on.
void HttpServer::serve() {
  while (round()) {
  }
}

bool HttpServer::round() {
  bool is_stopped = false;
  PollSet set;
  set.add(stop_.fd(), POLLIN, [&](short) { is_stopped = true; });
  if (rest_ && rest_->passed()) rest_.reset();
  if (rest_) set.wake_at(*rest_);
  else set.add(listening_.get(), POLLIN, [this](short) { accept(); });
  for (Connection& connection : connections_) {
    set.wake_at(connection.deadline);
    if (connection.answer.empty() || connection.sent == connection.answer.size())
      set.add(connection.fd.get(), POLLIN, [this, &connection](short) { read(connection); });
    else set.add(connection.fd.get(), POLLOUT, [this, &connection](short) { write(connection); });
  }
  set.wait();
  connections_.remove_if([](const Connection& connection) { return connection.is_over || connection.deadline.passed(); });
  while (connections_.size() > limits_.connections) connections_.pop_front();
  return !is_stopped;
}

void HttpServer::accept() {
  base::FileDescriptor fd(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (fd) return connections_.push_back(Connection{.fd = std::move(fd), .deadline = base::Deadline(limits_.time)});
  rest_.emplace(rest_after_failure);  // without a descriptor to spare the connection would be reported again at once
}

void HttpServer::read(Connection& connection) {
  std::array<char, 4096> bytes{};
  const auto got = ::recv(connection.fd.get(), bytes.data(), bytes.size(), 0);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got <= 0) {
    connection.is_over = true;
    return;
  }
  if (!connection.answer.empty()) return;  // what follows a request is read and dropped, so that closing does not lose the answer
  connection.request.append(bytes.data(), static_cast<std::size_t>(got));
  const bool is_whole = connection.request.find(end_of_head) != std::string::npos;
  if (is_whole || connection.request.size() > limits_.request_bytes) answer(connection);
}

void HttpServer::answer(Connection& connection) {
  const auto end = connection.request.find(end_of_head);
  try {
    connection.answer = end == std::string::npos || end > limits_.request_bytes ? refusal("431 Request Header Fields Too Large")
                                                                                : answer_to(std::string_view(connection.request).substr(0, end));
  } catch (const std::exception& error) {
    base::log(base::LogLevel::debug, fmt::format("metrics: {}", error.what()));
    connection.answer = refusal("500 Internal Server Error");
  }
  write(connection);
}

std::string HttpServer::answer_to(std::string_view head) {
  const auto request = parse_http(head);
  if (!request || !is_this_host_by_loopback(request->host)) return refusal("400 Bad Request");
  if (request->path != page_.path) return refusal("404 Not Found");
  if (request->method != "GET") return refusal("405 Method Not Allowed", "Allow: GET\r\n");
  const Content content = page_.content(request->accept);
  return answer_of("200 OK", content.type, content.body, "Vary: Accept\r\n");
}

void HttpServer::write(Connection& connection) {
  const std::string_view rest = std::string_view(connection.answer).substr(connection.sent);
  const auto done = ::send(connection.fd.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
  if (done < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (done < 0) connection.is_over = true;
  else connection.sent += static_cast<std::size_t>(done);
  if (!connection.is_over && connection.sent == connection.answer.size()) ::shutdown(connection.fd.get(), SHUT_WR);
}

}  // namespace unisono::launcher
