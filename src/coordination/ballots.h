#pragma once

#include <atomic>
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

/// The ballots of a group's calls, by the call's number among the group's collectives. The first ranks of the hosts tell each other the calls of
/// their host's ranks, the ranks that it waits for, and the hosts that are not waited for any longer. The thread that polls the link adds them.
class Ballots {
 public:
  /// The statement of a host.
  struct Statement {
    bool agrees = true;  ///< all ranks of that host make the same call, that of `signature`
    engines::Signature signature;
    std::string label;
    std::vector<engines::Ballot> ballots;  ///< where they do not agree
  };
  /// Return notices, with their kind (notices.h).
  static std::string encode(std::uint64_t call, const Statement& statement);
  static std::string encode_waiting(std::uint64_t call, const std::vector<int>& ranks);
  static std::string encode_left_out(std::uint64_t call, const std::set<int>& hosts);

  /// Stores such a notice of a rank of that host. A malformed one is dropped.
  void take(int host, std::string_view notice);
  const Statement* of(int host, std::uint64_t call);
  /// Returns true where a host is known to make another call, or its ranks make different ones. Costs one load while no host has stated.
  bool is_disputed(std::uint64_t call, const engines::Signature& signature);
  /// Returns the ranks that the host waits for in that call, if it has said.
  std::optional<std::vector<int>> awaited_by(int host, std::uint64_t call);
  /// Records hosts whose ballots came too late to count: those that another rank has named, and those that were named here.
  void leave_out(std::uint64_t call, const std::set<int>& hosts);
  std::set<int> left_out(std::uint64_t call);
  /// Deletes all that belongs to earlier calls.
  void forget_before(std::uint64_t call);

 private:
  static Statement decode_statement(base::ByteReader& content);

  std::atomic<std::uint64_t> newest_{0};  ///< the latest call of a statement
  std::mutex mutex_;
  std::uint64_t oldest_ = 0;
  std::map<std::pair<std::uint64_t, int>, Statement> ballots_;
  std::map<std::pair<std::uint64_t, int>, std::vector<int>> awaited_;
  std::map<std::uint64_t, std::set<int>> left_out_;
};

}  // namespace unisono::coordination
