#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "controller/functions.h"

namespace unisono::controller {

/// What a member brings.
struct Introduction {
  std::optional<int> worker = {};  ///< the number that it has had before
  // Of the controller, when the members have met before.
  std::int32_t epoch = 0;
  int workers = 0;
  std::vector<int> lost = {};  ///< the workers that newcomers become, in that order
};

/// What a member has said.
struct Member {
  int rank = 0;  ///< in the world of the job
  Introduction introduction = {};
  std::string host = {};
  std::vector<Known> functions = {};
};

/// Writes what this process says of itself, with its host and functions.
std::string encode(const Introduction& own);
/// Reads what the process of that rank has said. Throws ProtocolError for anything else.
Member decode_member(int rank, std::string_view encoded);

}  // namespace unisono::controller
