#include "base/openssl/socket_bio.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace unisono::base::openssl {
namespace {

constexpr std::size_t beginning_size = 8;
constexpr std::size_t kept_capacity = std::size_t{1} << 17;

}  // namespace

const BIO_METHOD* SocketBio::method() {
  static const BIO_METHOD* const made = [] {
    BIO_METHOD* const fresh = ::BIO_meth_new(::BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "unisono socket");
    if (fresh == nullptr) return fresh;
    ::BIO_meth_set_read(fresh, &on_read);
    ::BIO_meth_set_write(fresh, &on_write);
    ::BIO_meth_set_ctrl(fresh, &on_control);
    return fresh;
  }();
  return made;
}

BIO* SocketBio::make_bio() {
  BIO* const bio = method() == nullptr ? nullptr : ::BIO_new(method());
  if (bio == nullptr) return nullptr;
  ::BIO_set_data(bio, this);
  ::BIO_set_init(bio, 1);
  return bio;
}

int SocketBio::on_read(BIO* bio, char* to, int size) {
  auto& self = *static_cast<SocketBio*>(::BIO_get_data(bio));
  ::BIO_clear_retry_flags(bio);
  if (self.only_ahead) {
    ::BIO_set_retry_read(bio);
    return -1;
  }
  ssize_t n = 0;
  do n = ::recv(self.fd_, to, static_cast<std::size_t>(size), MSG_DONTWAIT);
  while (n < 0 && errno == EINTR);
  if (n > 0) {
    if (self.beginning_.size() < beginning_size)
      self.beginning_.append(to, std::min(static_cast<std::size_t>(n), beginning_size - self.beginning_.size()));
    return static_cast<int>(n);
  }
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
    ::BIO_set_retry_read(bio);
    return -1;
  }
  if (n < 0) self.error_ = errno;
  self.ended_ = true;
  return n == 0 ? 0 : -1;
}

int SocketBio::on_write(BIO* bio, const char* from, int size) {
  auto& self = *static_cast<SocketBio*>(::BIO_get_data(bio));
  ::BIO_clear_retry_flags(bio);
  try {
    self.out_.insert(self.out_.end(), from, from + size);
  } catch (...) {
    self.error_ = ENOMEM;
    return -1;
  }
  return size;
}

long SocketBio::on_control(BIO* bio, int command, long /*number*/, void* /*pointer*/) {
  const auto& self = *static_cast<SocketBio*>(::BIO_get_data(bio));
  if (command == BIO_CTRL_FLUSH) return 1;  // the connection sends at the end of each of its calls
  if (command == BIO_CTRL_EOF) return self.ended_ && self.error_ == 0 ? 1 : 0;
  return 0;
}

bool SocketBio::flush() {
  while (unsent() > 0) {
    const ssize_t n = ::send(fd_, out_.data() + sent_, unsent(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      sent_ += static_cast<std::size_t>(n);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS || errno == ENOMEM) {
      return true;
    } else if (errno != EINTR) {
      error_ = errno;
      return false;
    }
  }
  out_.clear();
  if (out_.capacity() > kept_capacity) out_.shrink_to_fit();
  sent_ = 0;
  return true;
}

}  // namespace unisono::base::openssl
