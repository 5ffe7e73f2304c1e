#pragma once

#include <string>
#include <vector>

#include "launch/first_cause.h"

namespace unisono::launcher {

/// Writes how the ranks of a node have ended, one line each, for the other launchers.
std::string encode_ends(const std::vector<RankEnd>& ends);
/// Throws ProtocolError where the text is not such a list.
std::vector<RankEnd> decode_ends(const std::string& text);

}  // namespace unisono::launcher
