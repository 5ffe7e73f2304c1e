#pragma once

#include <cstdint>
#include <optional>
#include <span>
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

/// A member in the list of all, and what tells its process apart.
struct ListedMember {
  Member member;
  std::string mark;
};
/// Returns the mark of the process with this record.
std::string_view mark_of(const Record& record);
/// Writes the list of a job's members, in the order of their ranks. Every rank reads it, so it is short: a host stands in it once, and no rank.
std::string encode_members(std::span<const Record> records);
/// Throws ProtocolError where the text is no such list.
std::vector<ListedMember> decode_members(std::string_view text);

/// Returns "host:pid".
std::string where(const Member& member);
/// Returns "0, 2, 5".
std::string list(const std::vector<int>& ranks);
std::vector<std::string_view> split(std::string_view text, char separator);

}  // namespace unisono::rendezvous
