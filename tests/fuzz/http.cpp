// The requests to the port of --metrics-port: any bytes are refused, or are a request with a method and a path. The host that it names has no port,
// so that a page of a stranger's, which the user's browser has opened, is told from this host.
#include "input.h"
#include "launch/view/http_server.h"

namespace unisono::fuzz {

void check_input(std::string_view bytes) {
  Input in(bytes);
  std::string head(in.rest());
  if (!head.empty() && (head.front() & 1) != 0) head = "GET /metrics HTTP/1.1\r\nHost: " + head.substr(1);
  const auto request = launcher::parse_http(head);
  if (!request) return;
  require(!request->method.empty() && request->method.find(' ') == std::string::npos, "a request has a method");
  require(request->path.starts_with('/') && request->path.find_first_of(" ?") == std::string::npos, "a request has a path");
  require(request->method.size() + request->path.size() + request->host.size() <= head.size(), "nothing is made up");
  const auto again = launcher::parse_http(request->method + " " + request->path + " HTTP/1.1\r\nHost: " + request->host);
  require(again && again->method == request->method && again->path == request->path, "a request comes back");
}

}  // namespace unisono::fuzz
