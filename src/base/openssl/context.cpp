#include "base/openssl/context.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509_vfy.h>

#include <array>
#include <cstring>
#include <string_view>

#include "base/secret.h"

namespace unisono::base::openssl {

std::string take_reasons() {
  std::string reasons;
  while (const unsigned long code = ::ERR_get_error()) {
    const char* const text = ::ERR_reason_error_string(code);
    if (text == nullptr || reasons.find(text) != std::string::npos) continue;
    if (!reasons.empty()) reasons += ", ";
    reasons += text;
  }
  return reasons.empty() ? "OpenSSL gives no reason" : reasons;
}

// OpenSSL's settings for an identity: TLS 1.3 alone, no tickets, and nobody is admitted without proof.

namespace {

// Ephemeral keys are exchanged with a pre-shared key as well (psk_dhe_ke), so that who learns the key later cannot read what was recorded. AES-128
// with SHA-256 comes first because the key is used with SHA-256.
constexpr const char* cipher_suites = "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256";
constexpr const char* key_exchanges = "X25519:P-256";
constexpr std::array<unsigned char, 2> cipher_of_key = {0x13, 0x01};  // TLS_AES_128_GCM_SHA256
constexpr std::string_view key_name = "unisono";
constexpr std::size_t read_buffer = std::size_t{64} << 10;
constexpr long longest_chain = 32L << 10;  ///< bytes of the other side's certificates

SSL_SESSION* key_of(SSL* connection) { return static_cast<SSL_SESSION*>(SSL_get_app_data(connection)); }

int offer_key(SSL* connection, const EVP_MD* hash, const unsigned char** name, std::size_t* name_size, SSL_SESSION** key) {
  *name = nullptr;
  *name_size = 0;
  *key = nullptr;
  SSL_SESSION* const own = key_of(connection);
  // After a HelloRetryRequest the hash is settled, and the key serves one only.
  if (hash != nullptr && ::EVP_MD_get_type(hash) != NID_sha256) return 1;
  if (own == nullptr || ::SSL_SESSION_up_ref(own) != 1) return 0;
  *name = reinterpret_cast<const unsigned char*>(key_name.data());
  *name_size = key_name.size();
  *key = own;
  return 1;
}

int find_key(SSL* connection, const unsigned char* name, std::size_t name_size, SSL_SESSION** key) {
  *key = nullptr;
  SSL_SESSION* const own = key_of(connection);
  if (own == nullptr || name_size != key_name.size() || std::memcmp(name, key_name.data(), name_size) != 0) return 1;
  if (::SSL_SESSION_up_ref(own) != 1) return 0;
  *key = own;
  return 1;
}

int give_no_password(char* /*buffer*/, int /*size*/, int /*writes*/, void* /*data*/) { return -1; }

Owned<BIO, ::BIO_free_all> reader_of(std::string_view text) {
  return Owned<BIO, ::BIO_free_all>(::BIO_new_mem_buf(text.empty() ? "" : text.data(), static_cast<int>(text.size())));
}

/// Reads certificates up to the end of the text. False: one cannot be read, or there is none.
bool read_certificates(const std::string& text, auto&& take) {
  const auto reader = reader_of(text);
  int count = 0;
  while (reader) {
    const Owned<X509, ::X509_free> certificate(::PEM_read_bio_X509(reader.get(), nullptr, &give_no_password, nullptr));
    if (!certificate) {
      const bool at_end = ERR_GET_REASON(::ERR_peek_last_error()) == PEM_R_NO_START_LINE;
      if (at_end && count > 0) ::ERR_clear_error();
      return at_end && count > 0;
    }
    if (!take(certificate.get(), count++)) return false;
  }
  return false;
}

std::unique_ptr<TlsContext> make_context(const TlsIdentity& identity, std::string& why) { return Context::make(identity, why); }

}  // namespace

// Returns the pre-shared key in the form in which OpenSSL takes it, for one connection: OpenSSL keeps it in memory that a core dump shows.
Owned<SSL_SESSION, ::SSL_SESSION_free> Context::make_session() const {
  Owned<SSL_SESSION, ::SSL_SESSION_free> made(::SSL_SESSION_new());
  const std::unique_ptr<SSL, Free<::SSL_free>> any(::SSL_new(settings_.get()));
  const SSL_CIPHER* const cipher = any ? ::SSL_CIPHER_find(any.get(), cipher_of_key.data()) : nullptr;
  const bool is_made = made && cipher != nullptr && ::SSL_SESSION_set_cipher(made.get(), cipher) == 1 &&
                       ::SSL_SESSION_set_protocol_version(made.get(), TLS1_3_VERSION) == 1 &&
                       ::SSL_SESSION_set1_id_context(made.get(), reinterpret_cast<const unsigned char*>(key_name.data()), key_name.size()) == 1 &&
                       ::SSL_SESSION_set1_master_key(made.get(), reinterpret_cast<const unsigned char*>(key_.view().data()), key_.size()) == 1;
  clear_vector_registers();
  if (!is_made) made.reset();
  return made;
}

std::string Context::take_key(const TlsIdentity& identity) {
  key_ = identity.key;
  if (!make_session()) return "the pre-shared key cannot be used: " + take_reasons();
  ::SSL_CTX_set_psk_use_session_callback(settings_.get(), &offer_key);
  ::SSL_CTX_set_psk_find_session_callback(settings_.get(), &find_key);
  return {};
}

std::string Context::take_certificate(const TlsIdentity& identity) {
  SSL_CTX* const settings = settings_.get();
  const bool read = read_certificates(identity.certificate, [&](X509* certificate, int index) {
    if (index == 0) return ::SSL_CTX_use_certificate(settings, certificate) == 1;
    return SSL_CTX_add1_chain_cert(settings, certificate) == 1;
  });
  if (!read) return identity.certificate_file + " holds no certificate that can be read (PEM): " + take_reasons();
  const auto reader = reader_of(identity.private_key.view());
  const Owned<EVP_PKEY, ::EVP_PKEY_free> key(::PEM_read_bio_PrivateKey(reader.get(), nullptr, &give_no_password, nullptr));
  if (!key) return identity.private_key_file + " holds no private key that can be read (PEM, without a password): " + take_reasons();
  if (::SSL_CTX_use_PrivateKey(settings, key.get()) != 1 || ::SSL_CTX_check_private_key(settings) != 1) {
    return identity.private_key_file + " is not the key of the certificate in " + identity.certificate_file + ": " + take_reasons();
  }
  X509_STORE* const store = ::SSL_CTX_get_cert_store(settings);
  if (!read_certificates(identity.authority, [&](X509* certificate, int) { return ::X509_STORE_add_cert(store, certificate) == 1; })) {
    return identity.authority_file + " holds no certificate that can be read (PEM): " + take_reasons();
  }
  has_certificate_ = true;
  return check_own(identity);
}

// The other side would find the same, and this side would only learn that it was refused.
std::string Context::check_own(const TlsIdentity& identity) const {
  for (const char* const purpose : {"ssl_server", "ssl_client"}) {
    const Owned<X509_STORE_CTX, ::X509_STORE_CTX_free> check(::X509_STORE_CTX_new());
    STACK_OF(X509)* chain = nullptr;
    SSL_CTX_get0_chain_certs(settings_.get(), &chain);  // NOLINT(bugprone-multi-level-implicit-pointer-conversion): in the macro
    if (!check ||
        ::X509_STORE_CTX_init(check.get(), ::SSL_CTX_get_cert_store(settings_.get()), ::SSL_CTX_get0_certificate(settings_.get()), chain) != 1 ||
        ::X509_STORE_CTX_set_default(check.get(), purpose) != 1) {
      return "the certificate cannot be checked: " + take_reasons();
    }
    if (::X509_verify_cert(check.get()) == 1) continue;
    const int error = ::X509_STORE_CTX_get_error(check.get());
    ::ERR_clear_error();
    return "the certificate in " + identity.certificate_file + " is not valid under " + identity.authority_file + ": " +
           ::X509_verify_cert_error_string(error);
  }
  return {};
}

std::unique_ptr<Context> Context::make(const TlsIdentity& identity, std::string& why) {
  ::ERR_clear_error();
  std::unique_ptr<Context> context(new Context);
  context->settings_.reset(::SSL_CTX_new(::TLS_method()));
  SSL_CTX* const settings = context->settings_.get();
  if (settings == nullptr || SSL_CTX_set_min_proto_version(settings, TLS1_3_VERSION) != 1 ||
      ::SSL_CTX_set_ciphersuites(settings, cipher_suites) != 1 || SSL_CTX_set1_groups_list(settings, key_exchanges) != 1 ||
      ::SSL_CTX_set_num_tickets(settings, 0) != 1 ||
      ::SSL_CTX_set_session_id_context(settings, reinterpret_cast<const unsigned char*>(key_name.data()), key_name.size()) != 1) {
    why = "OpenSSL cannot be set up: " + take_reasons();
    return nullptr;
  }
  ::SSL_CTX_set_options(settings, SSL_OP_NO_TICKET | SSL_OP_IGNORE_UNEXPECTED_EOF | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_mode(settings, SSL_MODE_NO_AUTO_CHAIN);  // the authority itself is not sent
  SSL_CTX_set_session_cache_mode(settings, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_read_ahead(settings, 1);
  ::SSL_CTX_set_default_read_buffer_len(settings, read_buffer);
  SSL_CTX_set_max_cert_list(settings, longest_chain);
  // With a key only there is no authority that any certificate could be signed by, so none is taken in its place.
  ::SSL_CTX_set_verify(settings, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  context->renew_after_ = identity.renew_after;
  why = identity.certificate.empty() ? context->take_key(identity) : context->take_certificate(identity);
  return why.empty() ? std::move(context) : nullptr;
}

std::unique_ptr<TlsConnection> Context::open(int fd, TlsSide side, std::string& why) const {
  ::ERR_clear_error();
  SSL* const connection = ::SSL_new(settings_.get());
  if (connection == nullptr) {
    why = take_reasons();
    return nullptr;
  }
  auto key = key_.empty() ? nullptr : make_session();
  if (!key_.empty() && !key) {
    why = "the pre-shared key cannot be used: " + take_reasons();
    ::SSL_free(connection);
    return nullptr;
  }
  auto opened = std::make_unique<Connection>(connection, std::move(key), fd, side, renew_after_);
  if (opened->valid()) return opened;
  why = take_reasons();
  return nullptr;
}

}  // namespace unisono::base::openssl

extern "C" __attribute__((visibility("default"))) const unisono::base::TlsLibrary* unisono_tls_library(const char* version_of_unisono) {
  using namespace unisono::base;
  static const TlsLibrary library{::OpenSSL_version(OPENSSL_VERSION), &openssl::make_context};
  return std::string_view(version_of_unisono) == UNISONO_TLS_FOR ? &library : nullptr;
}
