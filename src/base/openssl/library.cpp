#include "base/openssl/library.h"

#include <openssl/err.h>

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

}  // namespace unisono::base::openssl
