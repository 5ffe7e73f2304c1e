#pragma once

#include <openssl/ssl.h>

#include <cstdint>
#include <string>

#include "base/openssl/library.h"
#include "base/openssl/socket_bio.h"
#include "base/tls_library.h"

namespace unisono::base::openssl {

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
