#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "coordination/agreement_parts.h"
#include "coordination/ballots.h"
#include "engines/decision.h"

namespace unisono::coordination {

/// A call of which ranks are known to differ. The first rank of each host, and every rank of a host whose ranks differ, collects the statements of
/// all hosts for a while, and decides then who differs from most.
class Dispute {
 public:
  /// `differing`: a host whose call was found to be another, and that call.
  Dispute(const AgreementParts& parts, std::uint64_t number, Ballots::Statement own, std::optional<std::pair<int, engines::Signature>> differing);
  ~Dispute() { parts_.set_disputed(false); }
  Dispute(const Dispute&) = delete;
  Dispute& operator=(const Dispute&) = delete;

  /// Returns the decision, once all have stated, no more statement will come, or ballot_time() has passed. Never waits.
  std::optional<engines::Decision> advance();

 private:
  bool take_statements();
  bool nothing_more_comes();
  std::vector<engines::Ballot> ballots_without(const std::set<int>& hosts) const;
  void add_all_of(int host, const engines::Signature& signature, std::string_view label, std::vector<engines::Ballot>& to) const;

  const AgreementParts& parts_;
  const GroupTopology& topology_;
  const std::uint64_t number_;
  const Ballots::Statement own_;
  const std::optional<std::pair<int, engines::Signature>> differing_;
  const base::Deadline deadline_;
  base::Clock::time_point next_look_{};  ///< for ranks that are gone
  std::set<int> missing_{};              ///< hosts from which nothing has come
  std::set<int> answered_{};             ///< hosts whose ranks have all been told the calls of this host
};

}  // namespace unisono::coordination
