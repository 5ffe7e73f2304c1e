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

#include "engine/cooperative/ballots.h"
#include "engine/cooperative/signature.h"

namespace unisono::backends {

/// The first ranks of the hosts tell each other this of the calls of one group: a short text for each call, by its number among the group's
/// collectives, who is being waited for, and who was not waited for any longer. Filled by whoever polls the Link.
class Statements {
 public:
  struct Statement {
    bool agrees = true;  // all ranks of that host call the same, namely this:
    engine::Signature signature;
    std::string label;
    std::vector<engine::Ballot> ballots;  // where they do not agree
  };
  static std::string encode(std::uint64_t call, const Statement& statement);
  static std::string encode_waiting(std::uint64_t call, const std::vector<int>& ranks);
  static std::string encode_left_out(std::uint64_t call, const std::set<int>& hosts);

  /// Takes what has come from the first rank of a host.
  void take(int host, std::string_view text);
  const Statement* of(int host, std::uint64_t call);
  /// The ranks that the host waits for in that call, if it has said.
  std::optional<std::vector<int>> awaited_by(int host, std::uint64_t call);
  /// The hosts whose statements came too late to count: those that another rank has named, and those that were named here.
  void leave_out(std::uint64_t call, const std::set<int>& hosts);
  std::set<int> left_out(std::uint64_t call);
  /// Nothing before this call is asked for any more.
  void forget_before(std::uint64_t call);

 private:
  std::mutex mutex_;
  std::uint64_t oldest_ = 0;
  std::map<std::pair<std::uint64_t, int>, Statement> statements_;
  std::map<std::pair<std::uint64_t, int>, std::vector<int>> awaited_;
  std::map<std::uint64_t, std::set<int>> left_out_;
};

}  // namespace unisono::backends
