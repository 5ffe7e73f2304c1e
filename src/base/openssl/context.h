#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "base/openssl/connection.h"
#include "base/tls_library.h"

namespace unisono::base::openssl {

/// OpenSSL's settings for one identity. Both sides of a connection use the same.
class Context final : public TlsContext {
 public:
  /// Null: `why` says why.
  static std::unique_ptr<Context> make(const TlsIdentity& identity, std::string& why);
  std::unique_ptr<TlsConnection> open(int fd, TlsSide side, std::string& why) const override;
  bool has_certificate() const noexcept override { return has_certificate_; }

 private:
  Context() = default;
  std::string take_key(const TlsIdentity& identity);
  Owned<SSL_SESSION, ::SSL_SESSION_free> make_session() const;
  std::string take_certificate(const TlsIdentity& identity);
  std::string check_own(const TlsIdentity& identity) const;

  Owned<SSL_CTX, ::SSL_CTX_free> settings_;
  Secret key_;  ///< the pre-shared one; empty where there is a certificate
  bool has_certificate_ = false;
  std::uint64_t renew_after_ = 0;
};

}  // namespace unisono::base::openssl
