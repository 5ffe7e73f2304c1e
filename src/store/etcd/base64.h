#pragma once

#include <string>
#include <string_view>

namespace unisono::store::etcd {

std::string to_base64(std::string_view bytes);
/// Throws std::runtime_error for anything else.
std::string from_base64(std::string_view text);

}  // namespace unisono::store::etcd
