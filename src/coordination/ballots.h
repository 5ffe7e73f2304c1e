#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "engines/decision.h"
#include "engines/signature.h"

namespace unisono::coordination {

/// The ballots of the calls of one group, by the call's number among the group's collectives. The first ranks of the hosts tell each other what the
/// ranks of a host have called, whom it waits for, and which hosts were not waited for any longer. Filled by the thread that polls the link.
class Ballots {
 public:
  /// The statement of one host.
  struct Statement {
    bool agrees = true;  ///< all ranks of that host call the same, namely this:
    engines::Signature signature;
    std::string label;
    std::vector<engines::Ballot> ballots;  ///< where they do not agree
  };
  /// Notices, with their kind (notices.h).
  static std::string encode(std::uint64_t call, const Statement& statement);
  static std::string encode_waiting(std::uint64_t call, const std::vector<int>& ranks);
  static std::string encode_left_out(std::uint64_t call, const std::set<int>& hosts);

  /// Takes such a notice of a rank of that host. One that is malformed is dropped.
  void take(int host, std::string_view notice);
  const Statement* of(int host, std::uint64_t call);
  /// The ranks that the host waits for in that call, if it has said.
  std::optional<std::vector<int>> awaited_by(int host, std::uint64_t call);
  /// The hosts whose ballots came too late to count: those that another rank has named, and those that were named here.
  void leave_out(std::uint64_t call, const std::set<int>& hosts);
  std::set<int> left_out(std::uint64_t call);
  /// Nothing before this call is asked for any more.
  void forget_before(std::uint64_t call);

 private:
  void take_statement(int host, base::ByteReader& content);
  void take_waiting(int host, base::ByteReader& content);
  void take_left_out(base::ByteReader& content);

  std::mutex mutex_;
  std::uint64_t oldest_ = 0;
  std::map<std::pair<std::uint64_t, int>, Statement> ballots_;
  std::map<std::pair<std::uint64_t, int>, std::vector<int>> awaited_;
  std::map<std::uint64_t, std::set<int>> left_out_;
};

}  // namespace unisono::coordination
