#pragma once

#include <openssl/bio.h>
#include <openssl/ssl.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/tls_library.h"

namespace unisono::base::openssl {

template <auto Function>
struct Free {
  template <class T>
  void operator()(T* object) const {
    Function(object);
  }
};
template <class T, auto Function>
using Owned = std::unique_ptr<T, Free<Function>>;

/// Takes the reasons that OpenSSL has collected in this thread, as one sentence: "certificate has expired".
std::string take_reasons();

/// The socket below a TLS connection, as OpenSSL reads and writes it. OpenSSL's own would raise SIGPIPE, and send each record by a system call of its
/// own. What is written is collected here until `flush`, so that writing never has to wait.
class SocketBio {
 public:
  explicit SocketBio(int fd) : fd_(fd) {}
  SocketBio(const SocketBio&) = delete;
  SocketBio& operator=(const SocketBio&) = delete;

  /// Returns a BIO that refers to this object, which must live longer; null where there is no memory.
  BIO* make_bio();

  /// While it is set, the socket is not read from.
  bool only_ahead = false;

  /// Sends what was collected, as far as the socket takes it. False: it takes nothing any more (`error`).
  bool flush();
  std::size_t unsent() const { return out_.size() - sent_; }
  /// Returns true where nothing more will come, in order or not.
  bool ended() const { return ended_; }
  int error() const { return error_; }  ///< the errno that broke the socket, or 0
  /// The first bytes that came.
  const std::string& beginning() const { return beginning_; }

 private:
  static const BIO_METHOD* method();
  static int on_read(BIO* bio, char* to, int size);
  static int on_write(BIO* bio, const char* from, int size);
  static long on_control(BIO* bio, int command, long number, void* pointer);

  const int fd_;
  std::vector<char> out_;
  std::size_t sent_ = 0;
  bool ended_ = false;
  int error_ = 0;
  std::string beginning_;
};

class Connection final : public TlsConnection {
 public:
  /// `key`: the pre-shared one; null: there is none.
  Connection(SSL* made, Owned<SSL_SESSION, ::SSL_SESSION_free> key, int fd, TlsSide side, std::uint64_t renew_after);
  bool valid() const { return has_bio_; }

  Progress shake_hands() noexcept override;
  ssize_t read(const iovec* parts, std::size_t count) noexcept override;
  ssize_t read_ahead(const iovec* parts, std::size_t count) noexcept override;
  ssize_t write(const iovec* parts, std::size_t count) noexcept override;
  bool has_unsent() const noexcept override { return socket_.unsent() > 0; }
  bool flush() noexcept override;
  bool has_unread() const noexcept override { return more_; }
  void close() noexcept override;
  std::string binding() const override;
  std::string description() const override;
  const std::string& error() const noexcept override { return error_; }
  bool met_plain_text() const noexcept override { return socket_.beginning().starts_with(plain_text_begins); }

 private:
  class Cursor;
  std::size_t read_part(char* to, std::size_t size);
  bool encrypt(const void* from, std::size_t size);
  bool encrypt_piece(Cursor& from);
  bool renew();
  std::string reason_of_failure();
  void forget_key();
  ssize_t fail(int number);

  SocketBio socket_;
  Owned<SSL_SESSION, ::SSL_SESSION_free> key_;  ///< until the handshake is done
  Owned<SSL, ::SSL_free> ssl_;
  const std::uint64_t renew_after_;
  std::uint64_t written_ = 0;  ///< under the present key
  std::string error_;
  int ended_by_ = SSL_ERROR_NONE;  ///< how the last read ended, in OpenSSL's words
  const bool by_key_;
  bool has_bio_ = false, more_ = false, open_ = false, closed_ = false;
};

}  // namespace unisono::base::openssl
