// SipHash-2-4, compared with its authors' values and with OpenSSL's.
#include "base/numbered_codes.h"

#include <gtest/gtest.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include <memory>
#include <random>
#include <vector>

namespace unisono::base {
namespace {

std::span<const std::byte> bytes_of(const std::vector<unsigned char>& data) { return std::as_bytes(std::span(data)); }

// "SipHash: a fast short-input PRF", appendix A, and the authors' table: the key is 00 01 … 0f, and the message 00 01 ….
TEST(SipHash, SipHashGivesItsAuthorsValues) {
  const SipHash::Key key{0x0706050403020100, 0x0f0e0d0c0b0a0908};
  const std::pair<std::size_t, std::uint64_t> table[] = {
      {0, 0x726fdb47dd0e0e31}, {1, 0x74f839c593dc67fd}, {2, 0x0d6c8009d9a94f5a}, {8, 0x93f5f5799a932462}, {15, 0xa129ca6149be45e5}};
  for (const auto& [size, expected] : table) {
    std::vector<unsigned char> message;
    for (std::size_t i = 0; i < size; ++i) message.push_back(static_cast<unsigned char>(i));
    SipHash hash(key);
    hash.bytes(bytes_of(message));
    EXPECT_EQ(hash.finish(), expected) << size;
  }
}

std::uint64_t by_openssl(const std::vector<unsigned char>& key, const std::vector<unsigned char>& message) {
  const std::unique_ptr<EVP_MAC, decltype(&::EVP_MAC_free)> method(::EVP_MAC_fetch(nullptr, "SIPHASH", nullptr), &::EVP_MAC_free);
  const std::unique_ptr<EVP_MAC_CTX, decltype(&::EVP_MAC_CTX_free)> context(::EVP_MAC_CTX_new(method.get()), &::EVP_MAC_CTX_free);
  std::size_t size = sizeof(std::uint64_t);
  const OSSL_PARAM parameters[] = {::OSSL_PARAM_construct_size_t(OSSL_MAC_PARAM_SIZE, &size), ::OSSL_PARAM_construct_end()};
  unsigned char code[8] = {};
  EXPECT_EQ(::EVP_MAC_init(context.get(), key.data(), key.size(), parameters), 1);
  EXPECT_EQ(::EVP_MAC_update(context.get(), message.data(), message.size()), 1);
  EXPECT_EQ(::EVP_MAC_final(context.get(), code, &size, sizeof code), 1);
  return load_little_endian<std::uint64_t>(code);
}

TEST(SipHash, SipHashAgreesWithOpensslHoweverAMessageIsCut) {
  std::mt19937 random(1);
  for (int round = 0; round < 500; ++round) {
    std::vector<unsigned char> key(16), message(random() % 300);
    for (auto& byte : key) byte = static_cast<unsigned char>(random());
    for (auto& byte : message) byte = static_cast<unsigned char>(random());
    SipHash hash({load_little_endian<std::uint64_t>(key.data()), load_little_endian<std::uint64_t>(key.data() + 8)});
    auto rest = bytes_of(message);
    while (!rest.empty()) {
      const std::size_t n = std::min<std::size_t>(rest.size(), 1 + random() % 40);
      hash.bytes(rest.first(n));
      rest = rest.subspan(n);
    }
    EXPECT_EQ(hash.finish(), by_openssl(key, message)) << message.size();
  }
}

TEST(SipHash, AWordIsItsEightBytes) {
  const SipHash::Key key{1, 2};
  SipHash words(key), bytes(key);
  words.word(0x0807060504030201);
  const std::vector<unsigned char> same{1, 2, 3, 4, 5, 6, 7, 8};
  bytes.bytes(bytes_of(same));
  EXPECT_EQ(words.finish(), bytes.finish());
}

}  // namespace
}  // namespace unisono::base
