#include <openssl/crypto.h>

#include <memory>
#include <string>
#include <string_view>

#include "base/openssl/context.h"
#include "base/tls_library.h"

namespace unisono::base::openssl {
namespace {

std::unique_ptr<TlsContext> make_context(const TlsIdentity& identity, std::string& why) { return Context::make(identity, why); }

}  // namespace
}  // namespace unisono::base::openssl

extern "C" __attribute__((visibility("default"))) const unisono::base::TlsLibrary* unisono_tls_library(const char* version_of_unisono) {
  using namespace unisono::base;
  static const TlsLibrary library{::OpenSSL_version(OPENSSL_VERSION), &openssl::make_context};
  return std::string_view(version_of_unisono) == UNISONO_TLS_FOR ? &library : nullptr;
}
