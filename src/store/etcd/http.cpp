#include "store/etcd/http.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <stdexcept>

#include "base/files.h"

namespace unisono::store::etcd {
namespace {

/// The largest value of a store, as etcd's gateway encodes it, and some room.
constexpr std::size_t longest_body = std::size_t{32} << 20;
// A host that has gone without a word is noticed by the system in this time.
constexpr long idle_seconds = 10, probe_seconds = 5;
constexpr unsigned silent_ms = 25'000;
constexpr long first_error = 400;

struct FreeList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using Headers = std::unique_ptr<curl_slist, FreeList>;

void add(Headers& headers, const std::string& line) {
  curl_slist* const longer = curl_slist_append(headers.get(), line.c_str());
  if (longer == nullptr) throw std::bad_alloc();
  static_cast<void>(headers.release());
  headers.reset(longer);
}

/// Returns the sockets between processes that this one's children would inherit.
std::set<int> inherited_sockets() {
  std::set<int> sockets;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc/self/fd", error), end; !error && entry != end; entry.increment(error)) {
    const int fd = std::atoi(entry->path().filename().c_str());
    int family = 0;
    socklen_t size = sizeof family;
    if (::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size) != 0 || family != AF_UNIX) continue;
    if ((::fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0) sockets.insert(fd);
  }
  return sockets;
}

/// libcurl makes a pair of sockets by which a wait is ended, and leaves it to the children of the process: here they do not inherit it.
CURLM* make_multi() {
  const std::set<int> before = inherited_sockets();
  CURLM* const multi = curl_multi_init();
  for (const int fd : inherited_sockets()) {
    if (!before.contains(fd)) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  }
  return multi;
}

curl_socket_t open_socket(void*, curlsocktype, curl_sockaddr* address) {
  const int fd = ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
  if (fd >= 0 && (address->family == AF_INET || address->family == AF_INET6))
    ::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silent_ms, sizeof silent_ms);
  return fd;
}

}  // namespace

struct Http::Transfer {
  Http& http;
  const Take& take;
  Reply& reply;
  bool enough = false, too_long = false;
};

Http::Http(const Endpoint& endpoint) : url_(endpoint.url), multi_(make_multi()), easy_(curl_easy_init()) {
  if (!multi_ || !easy_) throw std::runtime_error("libcurl cannot be set up");
  set_up(endpoint);
}

void Http::set_up(const Endpoint& endpoint) {
  const auto set = [&](CURLoption option, auto value) {
    const CURLcode code = curl_easy_setopt(easy_.get(), option, value);
    if (code != CURLE_OK) throw std::runtime_error(std::string("libcurl refuses an option: ") + curl_easy_strerror(code));
  };
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_ERRORBUFFER, static_cast<char*>(error_));
  set(CURLOPT_PROXY, "");  // http_proxy and its like are for web pages
  set(CURLOPT_PROTOCOLS_STR, endpoint.url.starts_with("https") ? "https" : "http");
  set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  set(CURLOPT_TCP_KEEPALIVE, 1L);
  set(CURLOPT_TCP_KEEPIDLE, idle_seconds);
  set(CURLOPT_TCP_KEEPINTVL, probe_seconds);
  set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(endpoint.connect_ms));
  set(CURLOPT_OPENSOCKETFUNCTION, open_socket);
  set(CURLOPT_WRITEFUNCTION, write);
  if (!endpoint.authority.empty()) set(CURLOPT_CAINFO, endpoint.authority.c_str());
  if (!endpoint.authority.empty()) set(CURLOPT_CAPATH, static_cast<const char*>(nullptr));
  if (!endpoint.certificate.empty()) set(CURLOPT_SSLCERT, endpoint.certificate.c_str());
  if (!endpoint.private_key.empty()) set(CURLOPT_SSLKEY, endpoint.private_key.c_str());
}

std::size_t Http::write(char* bytes, std::size_t, std::size_t count, void* data) noexcept {
  Transfer& transfer = *static_cast<Transfer*>(data);
  try {
    std::string& body = transfer.reply.body;
    transfer.too_long = body.size() + count > longest_body;
    if (transfer.too_long) return 0;
    body.append(bytes, count);
    long status = 0;
    curl_easy_getinfo(transfer.http.easy_.get(), CURLINFO_RESPONSE_CODE, &status);
    if (transfer.take && status < first_error) transfer.enough = !transfer.take(body);
    return transfer.enough ? 0 : count;
  } catch (...) {
    return 0;
  }
}

Failure Http::post(std::string_view path, const std::string& body, Reply& reply, Patience& patience, const Take& take) {
  const base::WithoutSignal guard(SIGPIPE);  // OpenSSL writes to a closed connection
  Transfer transfer{*this, take, reply};
  Headers headers;
  add(headers, "Content-Type: application/json");
  add(headers, "Expect:");  // etcd need not allow a long request before it is sent
  if (!token_.empty()) {
    constexpr std::string_view begin = "Authorization: ";
    std::string authorization;
    authorization.reserve(begin.size() + token_.view().size());
    add(headers, authorization.append(begin).append(token_.view()));
    base::wipe(authorization);
  }
  const std::string url = url_ + std::string(path);
  error_[0] = '\0';
  curl_easy_setopt(easy_.get(), CURLOPT_URL, url.c_str());
  curl_easy_setopt(easy_.get(), CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(easy_.get(), CURLOPT_POSTFIELDS, body.c_str());
  curl_easy_setopt(easy_.get(), CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  curl_easy_setopt(easy_.get(), CURLOPT_WRITEDATA, &transfer);
  curl_multi_add_handle(multi_.get(), easy_.get());
  Failure failure = drive(transfer, patience);
  curl_easy_getinfo(easy_.get(), CURLINFO_RESPONSE_CODE, &reply.status);
  curl_multi_remove_handle(multi_.get(), easy_.get());
  return failure;
}

Failure Http::drive(Transfer& transfer, Patience& patience) {
  for (;;) {
    int running = 0;
    const CURLMcode code = curl_multi_perform(multi_.get(), &running);
    if (code != CURLM_OK) return {Failure::Kind::lost, curl_multi_strerror(code)};
    if (running == 0) break;
    const int pause = patience.milliseconds();
    if (pause < 0) return {Failure::Kind::stopped, {}};
    curl_multi_poll(multi_.get(), nullptr, 0, pause, nullptr);
  }
  int left = 0;
  while (const CURLMsg* const message = curl_multi_info_read(multi_.get(), &left)) {
    if (message->msg == CURLMSG_DONE) return judge(message->data.result, transfer);
  }
  return {Failure::Kind::lost, "libcurl says nothing of the request"};
}

Failure Http::judge(CURLcode code, const Transfer& transfer) const {
  if (code == CURLE_OK || transfer.enough) return {};
  if (transfer.too_long) return {Failure::Kind::malformed, "the answer is longer than any of etcd's"};
  const std::string text = error_[0] != '\0' ? error_ : curl_easy_strerror(code);
  switch (code) {
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CIPHER:
    case CURLE_URL_MALFORMAT: return {Failure::Kind::refused, text};
    case CURLE_UNSUPPORTED_PROTOCOL:  // the answer is no HTTP
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_HTTP2:
    case CURLE_BAD_CONTENT_ENCODING: return {Failure::Kind::malformed, text};
    default: break;
  }
  curl_off_t ready = 0;  // µs until the request could be sent
  curl_easy_getinfo(easy_.get(), CURLINFO_PRETRANSFER_TIME_T, &ready);
  return {ready > 0 ? Failure::Kind::lost : Failure::Kind::unreachable, text};
}

}  // namespace unisono::store::etcd
