#include "base/openssl/connection.h"

#include <openssl/err.h>
#include <openssl/sslerr.h>
#include <openssl/x509_vfy.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/secret.h"

namespace unisono::base::openssl {
namespace {

constexpr std::size_t beginning_size = 8;
constexpr std::size_t kept_capacity = std::size_t{1} << 17;

constexpr std::size_t record_size = std::size_t{16} << 10;  ///< the most that a record of TLS carries
constexpr std::size_t most_at_once = 4 * record_size;       ///< encrypted before it is sent, by one system call
constexpr std::size_t binding_size = 32;
constexpr std::string_view binding_label = "EXPORTER-Channel-Binding";

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

Connection::Connection(SSL* made, Owned<SSL_SESSION, ::SSL_SESSION_free> key, int fd, TlsSide side, std::uint64_t renew_after)
    : socket_(fd), key_(std::move(key)), ssl_(made), renew_after_(renew_after), by_key_(key_ != nullptr) {
  SSL_set_app_data(made, key_.get());
  BIO* const bio = socket_.make_bio();
  if (bio == nullptr) return;
  has_bio_ = true;
  ::SSL_set_bio(made, bio, bio);  // which it frees
  if (side == TlsSide::connecting) {
    ::SSL_set_connect_state(made);
  } else {
    ::SSL_set_accept_state(made);
  }
}

ssize_t Connection::fail(int number) {
  more_ = false;
  errno = number;
  return -1;
}

std::string Connection::reason_of_failure() {
  const long verified = ::SSL_get_verify_result(ssl_.get());
  const unsigned long first = ::ERR_peek_error();
  const int reason = ERR_GET_LIB(first) == ERR_LIB_SSL ? ERR_GET_REASON(first) : 0;
  std::string reasons = first == 0 ? std::string() : take_reasons();
  ::ERR_clear_error();
  if (met_plain_text()) return "it does not encrypt its connections, and this process does";
  if (reason == SSL_R_TLSV1_ALERT_PROTOCOL_VERSION) return "it does not encrypt its connections, and this process does";
  if (reason == SSL_R_BINDER_DOES_NOT_VERIFY) return "its token is not the token of this process";
  if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED) {
    if (by_key_) return "it presents a certificate, and this process has only a token";
    return std::string("its certificate is not valid: ") + ::X509_verify_cert_error_string(verified);
  }
  if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE) return "it presents no certificate";
  if (by_key_ && (reason == SSL_R_NO_SHARED_CIPHER || reason == SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM)) return "it does not offer the job's token";
  constexpr int first_alert = SSL_AD_REASON_OFFSET;
  if (reason > first_alert) return std::string(by_key_ ? "it refused this process's token" : "it refused this process") + " (" + reasons + ")";
  if (!reasons.empty()) return reasons;
  if (socket_.error() != 0) return std::strerror(socket_.error());
  return "it closed the connection";
}

TlsConnection::Progress Connection::shake_hands() noexcept {
  if (open_) return flush() && has_unsent() ? Progress::waits : Progress::done;
  ::ERR_clear_error();
  const int result = ::SSL_do_handshake(ssl_.get());
  const int why = result == 1 ? SSL_ERROR_NONE : ::SSL_get_error(ssl_.get(), result);
  if (result != 1 && why != SSL_ERROR_WANT_READ) {
    const bool lost = socket_.ended() && !met_plain_text();
    error_ = reason_of_failure();
    socket_.flush();  // the alert: the other side learns why
    return lost ? Progress::lost : Progress::failed;
  }
  // The settings allow no other way, but a certificate in place of the key would be a stranger's.
  if (result == 1 && by_key_ && ::SSL_session_reused(ssl_.get()) != 1) {
    error_ = "it did not use the job's token";
    return Progress::failed;
  }
  if (!socket_.flush()) {
    error_ = std::strerror(socket_.error());
    return Progress::lost;
  }
  if (result != 1) return Progress::waits;
  open_ = true;
  forget_key();
  more_ = ::SSL_has_pending(ssl_.get()) == 1;
  return has_unsent() ? Progress::waits : Progress::done;
}

// The connection has keys of its own now, which are made of fresh numbers as well.
void Connection::forget_key() {
  if (!by_key_) return;
  SSL_set_app_data(ssl_.get(), nullptr);
  key_.reset();
  const std::array<unsigned char, 32> nothing{};
  ::SSL_SESSION_set1_master_key(::SSL_get_session(ssl_.get()), nothing.data(), nothing.size());
  clear_vector_registers();
}

// Fills the memory as far as it goes, and notes how it ended.
std::size_t Connection::read_part(char* to, std::size_t size) {
  std::size_t filled = 0;
  while (filled < size) {
    std::size_t n = 0;
    if (::SSL_read_ex(ssl_.get(), to + filled, size - filled, &n) != 1) {
      ended_by_ = ::SSL_get_error(ssl_.get(), 0);
      break;
    }
    filled += n;
  }
  return filled;
}

ssize_t Connection::read(const iovec* parts, std::size_t count) noexcept {
  if (!error_.empty()) return fail(EBADMSG);
  ::ERR_clear_error();
  std::size_t all = 0;
  ended_by_ = SSL_ERROR_NONE;
  for (std::size_t i = 0; i < count && ended_by_ == SSL_ERROR_NONE; ++i) all += read_part(static_cast<char*>(parts[i].iov_base), parts[i].iov_len);
  more_ = ended_by_ != SSL_ERROR_WANT_READ;  // an end behind some bytes comes again at the next call
  if (all == 0 && ended_by_ != SSL_ERROR_WANT_READ) {
    if (ended_by_ == SSL_ERROR_ZERO_RETURN) {
      more_ = false;
      return 0;
    }
    if (socket_.error() != 0) return fail(socket_.error());
    error_ = reason_of_failure();
    socket_.flush();
    return fail(EBADMSG);
  }
  if (has_unsent()) socket_.flush();  // an answer of TLS itself
  if (all > 0) return static_cast<ssize_t>(all);
  errno = EAGAIN;
  return -1;
}

ssize_t Connection::read_ahead(const iovec* parts, std::size_t count) noexcept {
  socket_.only_ahead = true;
  const ssize_t n = read(parts, count);
  socket_.only_ahead = false;
  return n;
}

// Another key is announced in time. The other side follows on its own.
bool Connection::renew() {
  if (written_ < renew_after_) return true;
  written_ = 0;
  return ::SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) == 1;
}

bool Connection::encrypt(const void* from, std::size_t size) {
  std::size_t n = 0;
  if (!renew() || ::SSL_write_ex(ssl_.get(), from, size, &n) != 1) return false;
  written_ += n;
  return true;
}

/// Where a write is in its parts.
class Connection::Cursor {
 public:
  Cursor(const iovec* parts, std::size_t count) : part_(parts), end_(parts + count) { skip_empty(); }
  bool at_end() const { return part_ == end_; }
  /// The rest of the present part.
  std::size_t size() const { return part_->iov_len - within_; }
  bool is_last() const { return part_ + 1 == end_; }
  const char* data() const { return static_cast<const char*>(part_->iov_base) + within_; }
  void advance(std::size_t n) {
    within_ += n;
    taken_ += n;
    if (within_ == part_->iov_len) ++part_, within_ = 0;
    skip_empty();
  }
  std::size_t taken() const { return taken_; }

 private:
  void skip_empty() {
    while (part_ != end_ && part_->iov_len == 0) ++part_;
  }
  const iovec* part_;
  const iovec* const end_;
  std::size_t within_ = 0, taken_ = 0;
};

// Encrypts as much as is sent by one system call. A short part and the one behind it, as a head and its payload, share a record.
bool Connection::encrypt_piece(Cursor& from) {
  if (from.size() < record_size && !from.is_last()) {
    std::array<char, record_size> together;
    std::size_t held = 0;
    while (held < record_size && !from.at_end()) {
      const std::size_t n = std::min(from.size(), record_size - held);
      std::memcpy(together.data() + held, from.data(), n);
      held += n;
      from.advance(n);
    }
    if (!encrypt(together.data(), held)) return false;
  }
  if (from.at_end()) return true;
  const std::size_t n = std::min(from.size(), most_at_once);
  if (!encrypt(from.data(), n)) return false;
  from.advance(n);
  return true;
}

ssize_t Connection::write(const iovec* parts, std::size_t count) noexcept {
  if (!error_.empty()) return fail(EBADMSG);
  ::ERR_clear_error();
  Cursor from(parts, count);
  do {
    if (!socket_.flush()) return fail(socket_.error());
    if (has_unsent()) break;
    if (from.at_end()) return static_cast<ssize_t>(from.taken());
    if (!encrypt_piece(from)) {
      error_ = reason_of_failure();
      return fail(EBADMSG);
    }
  } while (true);
  if (from.taken() > 0) return static_cast<ssize_t>(from.taken());
  errno = EAGAIN;
  return -1;
}

bool Connection::flush() noexcept {
  if (socket_.flush()) return true;
  errno = socket_.error();
  return false;
}

void Connection::close() noexcept {
  if (!open_ || closed_ || !error_.empty()) return;
  closed_ = true;
  ::ERR_clear_error();
  ::SSL_shutdown(ssl_.get());
  ::ERR_clear_error();
  socket_.flush();
}

std::string Connection::binding() const {
  std::array<unsigned char, binding_size> bytes{};
  if (::SSL_export_keying_material(ssl_.get(), bytes.data(), bytes.size(), binding_label.data(), binding_label.size(), nullptr, 0, 0) != 1) return {};
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string Connection::description() const {
  return std::string(::SSL_get_version(ssl_.get())) + " " + ::SSL_get_cipher_name(ssl_.get()) + (by_key_ ? " (pre-shared key)" : " (certificates)");
}

}  // namespace unisono::base::openssl
