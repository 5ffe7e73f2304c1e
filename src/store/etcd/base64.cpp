#include "store/etcd/base64.h"

#include <openssl/evp.h>

#include <algorithm>
#include <stdexcept>

namespace unisono::store::etcd {
namespace {

constexpr std::size_t bytes_of_block = 3, characters_of_block = 4;

const unsigned char* unsigned_of(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }

}  // namespace

std::string to_base64(std::string_view bytes) {
  // OpenSSL writes a zero behind the text, where a string has one.
  std::string text((bytes.size() + bytes_of_block - 1) / bytes_of_block * characters_of_block, '\0');
  EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), unsigned_of(bytes), static_cast<int>(bytes.size()));
  return text;
}

std::string from_base64(std::string_view text) {
  constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const std::size_t padding = text.size() - std::min(text.size(), text.find_last_not_of('=') + 1);
  const bool is_whole = text.size() % characters_of_block == 0 && padding < bytes_of_block;
  // OpenSSL would skip white space.
  if (!is_whole || text.substr(0, text.size() - padding).find_first_not_of(alphabet) != std::string_view::npos)
    throw std::runtime_error("a text in it is no base64");
  std::string bytes(text.size() / characters_of_block * bytes_of_block, '\0');
  const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()), unsigned_of(text), static_cast<int>(text.size()));
  if (size < 0) throw std::runtime_error("a text in it is no base64");
  bytes.resize(static_cast<std::size_t>(size) - padding);
  return bytes;
}

}  // namespace unisono::store::etcd
