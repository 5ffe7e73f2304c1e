#pragma once

#include <string>
#include <vector>

#include "launch/first_cause.h"

namespace unisono::launcher {

/// How the ranks of a node have ended, a line each, for the other launchers.
std::string encode_ends(const std::vector<RankEnd>& ends);
/// ProtocolError where the text is none.
std::vector<RankEnd> decode_ends(const std::string& text);

}  // namespace unisono::launcher
