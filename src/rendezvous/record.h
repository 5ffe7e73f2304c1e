#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/rendezvous.h"

namespace unisono::rendezvous {

/// What a process writes into the store when it joins.
struct Record {
  Member member;              ///< rank -1: it takes any
  std::string nonce;          ///< tells two processes (or threads) apart that say the same of themselves
  std::int64_t presence = 0;  ///< file rendezvous: the byte it keeps locked while it is there; in a store that the program gave: see base::own_life
};

/// Of this process.
Record own_record(std::optional<int> rank);
std::string encode(const Record& record);
/// ProtocolError where the text is none.
Record decode(std::string_view text);

/// "host:pid"
std::string where(const Member& member);
/// "0, 2, 5"
std::string list(const std::vector<int>& ranks);
std::vector<std::string_view> split(std::string_view text, char separator);

}  // namespace unisono::rendezvous
