#include "store/authentication.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/sha.h>
#include <sys/random.h>

#include <array>
#include <memory>
#include <span>

#include <fmt/format.h>

#include "base/secret.h"
#include "unisono/error.h"

namespace unisono::store {
namespace {

constexpr std::size_t derived_key_size = 32;

// Puts its length in front of each part, so that different exchanges never give the same text.
std::string transcript(std::string_view label, const Exchange& exchange) {
  std::string text;
  for (const std::string_view part : {label, std::string_view(exchange.client_nonce), std::string_view(exchange.server_nonce),
                                      std::string_view(exchange.job_tag), std::string_view(exchange.binding)}) {
    text += std::to_string(part.size()) + ":";
    text += part;
  }
  return text;
}

// Without a token there is no code: everybody could compute one under an empty key.
base::Secret keyed_code(std::string_view token, std::string_view text) {
  if (token.empty()) return {};
  base::Secret code = base::Secret::filled(EVP_MAX_MD_SIZE, [&](char* bytes) -> std::size_t {
    unsigned int size = 0;
    if (::HMAC(::EVP_sha256(), token.data(), static_cast<int>(token.size()), reinterpret_cast<const unsigned char*>(text.data()), text.size(),
               reinterpret_cast<unsigned char*>(bytes), &size) == nullptr) {
      throw Error("the authentication code could not be computed");
    }
    return size;
  });
  base::clear_vector_registers();
  return code;
}

std::string hexadecimal(std::span<const unsigned char> bytes) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : bytes) {
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

base::Secret proof(std::string_view token, std::string_view label, const Exchange& exchange) {
  return keyed_code(token, transcript(label, exchange));
}

[[noreturn]] void fail() { throw Error("the authentication code of an object could not be computed", {.hint = "OpenSSL has to offer Poly1305"}); }

// It is looked for once, which takes longer than a code of a short payload, and never freed.
EVP_MAC* method() {
  static EVP_MAC* const found = ::EVP_MAC_fetch(nullptr, "POLY1305", nullptr);
  if (found == nullptr) fail();
  return found;
}

}  // namespace

std::string fresh_nonce() {
  std::array<unsigned char, nonce_size> bytes{};
  // OpenSSL's own numbers come from the same source, and its start takes longer than all else that a rank of one host does to join a job.
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) throw Error("the system gave no random bytes");
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string fresh_name() {
  const std::string nonce = fresh_nonce();
  return hexadecimal({reinterpret_cast<const unsigned char*>(nonce.data()), nonce.size()});
}

std::string client_proof(std::string_view token, const Exchange& exchange) {
  return std::string(proof(token, "unisono store: client", exchange).view());
}
std::string server_proof(std::string_view token, const Exchange& exchange) {
  return std::string(proof(token, "unisono store: server", exchange).view());
}

std::optional<base::FrameKeys> client_keys(std::string_view token, const Exchange& exchange) {
  if (token.empty() || !exchange.binding.empty()) return std::nullopt;
  return base::FrameKeys{proof(token, "unisono store: frames of the client", exchange),
                         proof(token, "unisono store: frames of the server", exchange)};
}
std::optional<base::FrameKeys> server_keys(std::string_view token, const Exchange& exchange) {
  auto keys = client_keys(token, exchange);
  if (keys) std::swap(keys->sending, keys->receiving);
  return keys;
}

bool same_proof(std::string_view a, std::string_view b) { return a.size() == b.size() && ::CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0; }

std::string message_code(std::string_view token, std::string_view label, std::string_view message) {
  return std::string(message_key(token, label, message).view());
}

base::Secret message_key(std::string_view token, std::string_view label, std::string_view message) {
  return keyed_code(token, fmt::format("{}:{}{}", label.size(), label, message));
}

base::Secret derived_key(std::string_view secret, std::string_view label) {
  const auto bytes_of = [](const char* name, std::string_view text) {
    return ::OSSL_PARAM_construct_octet_string(name, const_cast<char*>(text.data()), text.size());
  };
  char hash[] = "SHA256";
  const std::array parameters = {::OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, hash, 0), bytes_of(OSSL_KDF_PARAM_KEY, secret),
                                 bytes_of(OSSL_KDF_PARAM_INFO, label), ::OSSL_PARAM_construct_end()};
  const std::unique_ptr<EVP_KDF, decltype(&::EVP_KDF_free)> method(::EVP_KDF_fetch(nullptr, "HKDF", nullptr), &::EVP_KDF_free);
  const std::unique_ptr<EVP_KDF_CTX, decltype(&::EVP_KDF_CTX_free)> context(::EVP_KDF_CTX_new(method.get()), &::EVP_KDF_CTX_free);
  base::Secret key = base::Secret::filled(derived_key_size, [&](char* bytes) {
    if (!context || ::EVP_KDF_derive(context.get(), reinterpret_cast<unsigned char*>(bytes), derived_key_size, parameters.data()) != 1)
      throw Error("a key could not be derived");
    return derived_key_size;
  });
  base::clear_vector_registers();
  return key;
}

std::string digest(std::string_view text) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> code{};
  ::SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), code.data());
  return hexadecimal(code);
}

PayloadCode::PayloadCode(std::string_view secret, std::string_view context) : context_(::EVP_MAC_CTX_new(method())) {
  const base::Secret key = message_key(secret, "unisono object", context);
  if (!context_ || ::EVP_MAC_init(context_.get(), reinterpret_cast<const unsigned char*>(key.view().data()), key.size(), nullptr) != 1) fail();
}

PayloadCode& PayloadCode::add(std::span<const std::byte> bytes) {
  if (!bytes.empty() && ::EVP_MAC_update(context_.get(), reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()) != 1) fail();
  return *this;
}

PayloadCode::Bytes PayloadCode::finish() {
  Bytes code{};
  std::size_t size = 0;
  if (::EVP_MAC_final(context_.get(), reinterpret_cast<unsigned char*>(code.data()), &size, code.size()) != 1 || size != code.size()) fail();
  return code;
}

void PayloadCode::Free::operator()(evp_mac_ctx_st* context) const { ::EVP_MAC_CTX_free(context); }

}  // namespace unisono::store
