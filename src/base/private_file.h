#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/secret.h"

namespace unisono::base {

/// Returns the content of a file that holds a secret; `what` names it in messages: "the token file". Throws InvalidArgument, which names the file,
/// where it cannot be read, is longer than `most` bytes, belongs to another user, or can be read or written by anybody else.
Secret read_private_file(std::string_view what, const std::string& path, std::size_t most);
/// Returns the content of a file that everybody may read, under the other conditions.
std::string read_public_file(std::string_view what, const std::string& path, std::size_t most);

}  // namespace unisono::base
