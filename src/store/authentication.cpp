#include "store/authentication.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/sha.h>
#include <sys/random.h>

#include <algorithm>

#include <fmt/format.h>

#include "base/files.h"
#include "base/log.h"
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

constexpr std::size_t shortest_secret = 16;
constexpr std::size_t longest_token_file = 4096;
constexpr std::string_view where_from =
    "set UNISONO_TOKEN to the same random text on every rank, or UNISONO_TOKEN_FILE to a file that holds it and that only you can read; "
    "UNISONO_TOKEN=none goes without";
constexpr std::string_view how_to_make_one = "`openssl rand -hex 32` makes one";

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

base::Secret token_for(std::span<const base::SocketAddress> addresses, const std::optional<base::Secret>& argument,
                       const base::Environment& environment) {
  const auto remote = std::ranges::find_if(addresses, [](const auto& address) { return !address.is_loopback(); });
  const bool local = remote == addresses.end();
  base::Secret said = argument ? *argument : said_token(environment).value_or(base::Secret());
  if (said == "none") {
    if (!local)
      base::warn(
          fmt::format("the store at {} asks for no token: every process that reaches this address can join or disturb the job", describe(*remote)));
    return {};
  }
  if (said.empty() && !local) {
    throw InvalidArgument(
        fmt::format("the store's address {} is not a loopback address, so its connections need the job's secret", describe(*remote)),
        {.hint = std::string(where_from)});
  }
  // A rank sends its first proof to whatever process listens at the address, which could then guess a short secret at leisure.
  if (!local && said.size() < shortest_secret) {
    throw InvalidArgument(fmt::format("the job's secret has {} bytes; for {}, which is not a loopback address, it takes {} at least", said.size(),
                                      describe(*remote), shortest_secret),
                          {.hint = std::string(how_to_make_one)});
  }
  return said;
}

void check_token_between(std::string_view hosts, const std::optional<base::Secret>& token) {
  if (token && *token == "none") return;
  if (!token || token->empty()) {
    throw InvalidArgument(fmt::format("the ranks are on several hosts ({}), so their connections need the job's secret", hosts),
                          {.hint = std::string(where_from)});
  }
  // Whoever can write to the store where the ranks meet can give his own address as a rank's, and is sent a proof by which he could guess a short
  // secret at leisure.
  if (token->size() < shortest_secret) {
    throw InvalidArgument(
        fmt::format("the job's secret has {} bytes; between ranks of several hosts ({}) it takes {} at least", token->size(), hosts, shortest_secret),
        {.hint = std::string(how_to_make_one)});
  }
}

std::optional<base::Secret> said_token(const base::Environment& environment) {
  if (auto token = environment.secret("UNISONO_TOKEN")) return token;
  if (const auto file = environment.get("UNISONO_TOKEN_FILE")) return token_of_file(*file);
  return std::nullopt;
}

base::Secret token_of_file(const std::string& path) {
  const base::Secret content = base::read_private_file("the token file", path, longest_token_file);
  const std::string_view text = content.view();
  constexpr std::string_view white = " \t\r\n";
  const auto first = text.find_first_not_of(white);
  if (first == std::string::npos) throw InvalidArgument(fmt::format("the token file {} is empty", path));
  return text.substr(first, text.find_last_not_of(white) - first + 1);
}

void check_key_of_tls(const base::Secret& token, const base::Environment& environment) {
  const base::TlsOptions options = base::tls_options(environment);
  if (!options.wanted() || !token.empty() || options.has_certificate()) return;
  throw InvalidArgument(fmt::format("UNISONO_TLS={} takes the job's secret, by which the processes know each other, or certificates", options.word()),
                        {.hint = "set UNISONO_TOKEN or UNISONO_TOKEN_FILE on every rank, or UNISONO_TLS_CERT, UNISONO_TLS_KEY and UNISONO_TLS_CA"});
}

std::shared_ptr<const base::TlsContext> tls_for(const base::Secret& token, const base::Environment& environment) {
  check_key_of_tls(token, environment);
  const base::TlsOptions options = base::tls_options(environment);
  if (!options.wanted()) return nullptr;
  return base::make_tls_context(options, token.empty() ? base::Secret() : derived_key(token.view(), "unisono store: TLS 1.3 pre-shared key"));
}

}  // namespace unisono::store
