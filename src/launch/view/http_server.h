#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "base/thread.h"
#include "launch/process/poll_set.h"

namespace unisono::launcher {

/// Serves one page by HTTP/1.1 on 127.0.0.1, in a thread of its own: GET of its path, and nothing else. A connection has one request, of at most 8
/// KiB, and a few seconds. Where all places are taken, the oldest connection makes room, so nobody is kept from the page by those who do not ask.
class HttpServer {
 public:
  struct Content {
    std::string_view type;  ///< its media type
    std::string body;
  };
  struct Page {
    std::string path;                                         ///< "/metrics"
    std::function<Content(std::string_view accept)> content;  ///< by the request's field Accept; called by the thread of the server
  };
  struct Limits {
    std::size_t connections = 16;
    std::size_t request_bytes = 8192;
    std::chrono::milliseconds time = std::chrono::seconds(5);  ///< of a connection
  };

  /// `port`: 0 stands for any free one. Throws StartFailed where it is in use.
  HttpServer(std::uint16_t port, Page page) : HttpServer(port, std::move(page), Limits()) {}
  HttpServer(std::uint16_t port, Page page, const Limits& limits);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::uint16_t port() const noexcept { return port_; }

 private:
  struct Connection {
    base::FileDescriptor fd;
    base::Deadline deadline;
    std::string request = {}, answer = {};
    std::size_t sent = 0;
    bool is_over = false;
  };
  void serve();
  bool round();
  void accept();
  void read(Connection& connection);
  void write(Connection& connection);
  void answer(Connection& connection);
  std::string answer_to(std::string_view head);

  const Page page_;
  const Limits limits_;
  base::FileDescriptor listening_;
  std::uint16_t port_ = 0;
  const Notifier stop_;
  std::optional<base::Deadline> rest_;  ///< nobody is let in before
  std::list<Connection> connections_;   ///< the oldest one first
  base::Thread thread_;
};

/// The first line and the fields of a request.
struct HttpRequest {
  std::string method, path;  ///< without what follows a '?'
  std::string host;          ///< without its port; empty: none is named
  std::string accept;        ///< the media types that are wanted, in lower case; empty: none is named
};
/// `head`: up to the empty line, which is left out. Returns nothing for what is no request of HTTP/1.
std::optional<HttpRequest> parse_http(std::string_view head);
/// Returns the greatest weight with which a field Accept in lower case names a media type, whatever its version: 1 where it says none, 0 where the
/// type is not named.
double weight_of_type(std::string_view accept, std::string_view type);

}  // namespace unisono::launcher
