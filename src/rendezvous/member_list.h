#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/record.h"

namespace unisono::rendezvous {

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
