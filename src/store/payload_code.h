#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

struct evp_mac_ctx_st;

namespace unisono::store {

/// The authentication code of a payload: Poly1305 under a key of its own, which is HMAC-SHA256 of the payload's context under a secret. It can only
/// be made by who knows the secret, and a code of one context is none of another.
class PayloadCode {
 public:
  using Bytes = std::array<std::byte, 16>;

  /// `context`: of this payload alone. Two payloads with one context under one secret would tell their key.
  PayloadCode(std::string_view secret, std::string_view context);
  PayloadCode& add(std::span<const std::byte> bytes);
  /// Returns the code of all that was added. It is called once.
  Bytes finish();

 private:
  struct Free {
    void operator()(evp_mac_ctx_st* context) const;
  };
  std::unique_ptr<evp_mac_ctx_st, Free> context_;
};

}  // namespace unisono::store
