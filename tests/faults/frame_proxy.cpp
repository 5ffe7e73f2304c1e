#include "frame_proxy.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/deadline.h"
#include "base/socket.h"
#include "proxied_store.h"
#include "store/authentication.h"
#include "store/wire.h"

namespace unisono::testing {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t words_of_handshake = 3;     ///< a greeting and two frames, in each direction
constexpr std::size_t codes_of_store_frame = 16;  ///< of the length and of the content (store/wire.h)
constexpr auto patience = 60s;

std::size_t word_at(const std::string& bytes, std::size_t at) {
  return base::load_little_endian<std::uint32_t>(reinterpret_cast<const std::byte*>(bytes.data() + at));
}

void write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}

void shut(const base::FileDescriptor& client, const base::FileDescriptor& server, bool by_reset) {
  for (const auto* fd : {&client, &server}) {
    if (by_reset) {  // a close that resets; shutdown would say goodbye first
      const linger none{.l_onoff = 1, .l_linger = 0};
      ::setsockopt(fd->get(), SOL_SOCKET, SO_LINGER, &none, sizeof none);
      sockaddr unspecified{};
      unspecified.sa_family = AF_UNSPEC;
      static_cast<void>(::connect(fd->get(), &unspecified, sizeof unspecified));  // which aborts a connection
    }
    ::shutdown(fd->get(), SHUT_RDWR);
  }
}

}  // namespace

/// Divides what comes from one end into units, and passes them to the other.
class FrameProxy::Pump {
 public:
  Pump(FrameProxy& proxy, std::shared_ptr<Ends> ends, Direction direction)
      : proxy_(proxy),
        ends_(std::move(ends)),
        direction_(direction),
        in_(direction == Direction::to_server ? ends_->client.get() : ends_->server.get()),
        out_(direction == Direction::to_server ? ends_->server.get() : ends_->client.get()) {}

  void run() {
    char chunk[65536];
    for (;;) {
      const ssize_t n = ::recv(in_, chunk, sizeof chunk, 0);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      bytes_.append(chunk, static_cast<std::size_t>(n));
      std::size_t size = 0;
      while ((size = unit_size()) != 0 && bytes_.size() >= size) {
        pass(bytes_.substr(0, size));
        bytes_.erase(0, size);
        ++units_;
      }
    }
    write_all(out_, held_ + bytes_);
    ::shutdown(out_, SHUT_WR);
  }

 private:
  bool is_link() const { return proxy_.plan_.protocol == Protocol::link; }
  bool is_frame() const { return is_link() && units_ >= words_of_handshake; }

  /// The bytes of the next unit; 0 where its head has not come.
  std::size_t unit_size() const {
    if (proxy_.plan_.protocol == Protocol::opaque) return bytes_.size();
    if (units_ == 0) return store::greeting_size;
    if (!is_frame() && bytes_.size() < store::frame_head) return 0;
    if (!is_link()) return store::frame_head + word_at(bytes_, 0) + (units_ < words_of_handshake ? 0 : codes_of_store_frame);
    if (!is_frame()) return store::frame_head + word_at(bytes_, 0);
    return bytes_.size() < transport::frame_head_size ? 0 : transport::frame_head_size + word_at(bytes_, 4);
  }

  bool is_meant(const std::string& unit) {
    const Plan& plan = proxy_.plan_;
    if (plan.deed.what == Deed::What::nothing || direction_ != plan.direction || (plan.client >= 0 && ends_->from != plan.client)) return false;
    if (plan.deed.what == Deed::What::split) return true;
    if (proxy_.struck_) return false;
    if (plan.protocol == Protocol::opaque) {
      passed_ += unit.size();
      return passed_ > static_cast<std::size_t>(plan.deed.nth);
    }
    if (plan.deed.unit >= 0) return units_ == static_cast<std::size_t>(plan.deed.unit);
    if (!is_frame() || word_at(unit, 0) != static_cast<std::size_t>(plan.deed.kind)) return false;
    return ++proxy_.seen_ == plan.deed.nth;
  }

  void pass(std::string unit) {
    if (is_link() && direction_ == Direction::to_server && units_ == 1) {  // the hello: a nonce, and who it is
      ends_->from = static_cast<int>(word_at(unit, store::frame_head + store::nonce_size));
    }
    if (is_meant(unit)) return act(std::move(unit));
    write_all(out_, unit);
    if (!held_.empty()) write_all(out_, std::exchange(held_, {}));
  }

  void act(std::string unit) {
    const Deed& deed = proxy_.plan_.deed;
    const auto at = static_cast<std::size_t>(deed.at < 0 ? static_cast<int>(unit.size()) + deed.at : deed.at) % unit.size();
    proxy_.struck_ = true;
    switch (deed.what) {
      case Deed::What::nothing: return write_all(out_, unit);
      case Deed::What::corrupt: unit[at] = static_cast<char>(unit[at] ^ 4); return write_all(out_, unit);
      case Deed::What::duplicate: return write_all(out_, unit + unit);
      case Deed::What::swap: held_ = std::move(unit); return;
      case Deed::What::drop: return;
      case Deed::What::cut:
      case Deed::What::reset: write_all(out_, unit.substr(0, at)); return shut(ends_->client, ends_->server, deed.what == Deed::What::reset);
      case Deed::What::hold:
        write_all(out_, unit.substr(0, at));
        if (proxy_.wait_to_go_on()) write_all(out_, unit.substr(at));
        return;
      case Deed::What::split: {
        const std::size_t part = splits_++ % unit.size();
        write_all(out_, unit.substr(0, part));
        ::poll(nullptr, 0, 1);  // so that the parts are two packets as a rule
        return write_all(out_, unit.substr(part));
      }
    }
  }

  FrameProxy& proxy_;
  const std::shared_ptr<Ends> ends_;
  const Direction direction_;
  const int in_, out_;
  std::string bytes_, held_;
  std::size_t units_ = 0, splits_ = 0, passed_ = 0;
};

FrameProxy::FrameProxy(std::uint16_t server, Plan plan) : server_(server), plan_(plan) {
  base::Opened listener = base::try_listen(base::resolve("127.0.0.1", 0).front());
  if (!listener.fd) throw std::runtime_error("the proxy cannot listen");
  listener_ = std::move(listener.fd);
  sockaddr_in own{};
  socklen_t size = sizeof own;
  ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&own), &size);
  port_ = ntohs(own.sin_port);
  acceptor_ = std::thread([this] { accept(); });
}

FrameProxy::~FrameProxy() {
  ends_ = true;
  go_on();
  acceptor_.join();
  for (const auto& ends : connections_) shut(ends->client, ends->server, false);
  for (auto& pump : pumps_) pump.join();
}

void FrameProxy::go_on() {
  const std::lock_guard lock(mutex_);
  goes_on_ = true;
  changed_.notify_all();
}

bool FrameProxy::wait_to_go_on() {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, patience, [this] { return goes_on_; });
}

void FrameProxy::accept() {
  while (!ends_) {
    pollfd entry{listener_.get(), POLLIN, 0};
    if (::poll(&entry, 1, 20) <= 0) continue;
    const auto ends = std::make_shared<Ends>();
    ends->client.reset(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!ends->client) continue;
    base::Opened server = base::try_connect(base::resolve("127.0.0.1", server_).front(), base::Deadline(patience));
    if (!server.fd) continue;  // nobody listens any more, which the client sees
    const int flags = ::fcntl(server.fd.get(), F_GETFL);
    ::fcntl(server.fd.get(), F_SETFL, flags & ~O_NONBLOCK);
    base::set_no_delay(server.fd.get());
    base::set_no_delay(ends->client.get());
    ends->server = std::move(server.fd);
    connections_.push_back(ends);
    for (const Direction direction : {Direction::to_server, Direction::to_client}) {
      pumps_.emplace_back([this, ends, direction] { Pump(*this, ends, direction).run(); });
    }
  }
}

ProxiedLinks::ProxiedLinks(std::shared_ptr<Store> store, int ranks, FrameProxy::Plan plan, int server) {
  for (int rank = 1; rank < ranks; ++rank) {  // the lower rank of each pair connects
    threads_.emplace_back([this, store, rank, plan, server] {
      try {
        std::optional<std::string> found;
        while (!ends_ && !(found = store->try_get(key_of_listener(rank)))) ::poll(nullptr, 0, 5);  // a test ends although the rank does not come
        if (!found) return;
        const std::string& told = *found;
        const auto line = told.find('\n');
        const int port = std::stoi(told.substr(told.rfind(' ')));
        auto proxy = std::make_unique<FrameProxy>(static_cast<std::uint16_t>(port), rank == server ? plan : FrameProxy::Plan{});
        store->set(told.substr(0, line), fmt::format("127.0.0.1 {}", proxy->port()));
        const std::lock_guard lock(mutex_);
        proxies_.push_back(std::move(proxy));
      } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the rank has not come, and its peers will say so
      }
    });
  }
}

ProxiedLinks::~ProxiedLinks() {
  ends_ = true;
  for (auto& thread : threads_) thread.join();
}

bool ProxiedLinks::has_struck() const {
  const std::lock_guard lock(mutex_);
  for (const auto& proxy : proxies_) {
    if (proxy->has_struck()) return true;
  }
  return false;
}

void ProxiedLinks::go_on() {
  const std::lock_guard lock(mutex_);
  for (const auto& proxy : proxies_) proxy->go_on();
}

}  // namespace unisono::testing
