#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rendezvous/rendezvous.h"
#include "unisono/error.h"

namespace unisono::rendezvous {

/// Returns the ErrorInfo of an error in joining the job: the call was `initialize`.
inline ErrorInfo info(std::string hint = {}) { return {.operation = "initialize", .hint = std::move(hint)}; }

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

/// The list of a job's members that the process which completes the job writes, and every host reads. It is short: a host stands in it once, a
/// process takes a few bytes, and no rank is named, as the members stand in the order of their ranks.
class MemberList {
 public:
  /// `records`: in the order of their ranks.
  static std::string encode(std::span<const Record> records);
  /// Throws ProtocolError where the text is no such list.
  explicit MemberList(std::string_view text);

  const std::vector<Member>& members() const { return members_; }
  std::vector<Member> take_members() { return std::move(members_); }
  /// Returns the rank of the process with this record; -1: it is not in the list. A process that has a rank is looked for at that rank alone.
  int rank_of(const Record& record) const;

 private:
  void read(std::string_view text);
  bool has_mark(std::size_t rank, std::uint64_t mark) const;

  std::vector<Member> members_;
  std::vector<std::uint64_t> marks_;  ///< by rank, the lowest bytes of what tells its process apart
  int mark_bytes_ = 0;
};

}  // namespace unisono::rendezvous
