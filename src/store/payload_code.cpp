#include "store/payload_code.h"

#include <openssl/evp.h>

#include "store/authentication.h"
#include "unisono/error.h"

namespace unisono::store {
namespace {

[[noreturn]] void fail() { throw Error("the authentication code of an object could not be computed", {.hint = "OpenSSL has to offer Poly1305"}); }

// It is looked for once, which takes longer than a code of a short payload, and never freed.
EVP_MAC* method() {
  static EVP_MAC* const found = ::EVP_MAC_fetch(nullptr, "POLY1305", nullptr);
  if (found == nullptr) fail();
  return found;
}

}  // namespace

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
