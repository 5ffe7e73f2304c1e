#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/rendezvous.h"

namespace unisono::rendezvous {

/// The entry of a process in the store when it joins.
struct Record {
  Member member;              ///< rank -1: it takes any
  std::string nonce;          ///< tells apart two processes (or threads) with the same fields
  std::int64_t presence = 0;  ///< file rendezvous: the byte that it keeps locked while it lives; in a store that the program gave: see base::own_life
};

/// Returns the record of this process.
Record own_record(std::optional<int> rank);
std::string encode(const Record& record);
/// Throws ProtocolError where the text is no record.
Record decode(std::string_view text);

/// Returns "host:pid".
std::string where(const Member& member);
/// Returns "0, 2, 5".
std::string list(const std::vector<int>& ranks);
std::vector<std::string_view> split(std::string_view text, char separator);

}  // namespace unisono::rendezvous
