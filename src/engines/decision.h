#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engines/signature.h"
#include "unisono/error.h"

// Decides which ranks are to blame where the ranks of a call have called different things. A call that more than half of the ranks have made counts
// as right. The other ranks are to blame, and the lowest of them is the error's culprit, which all ranks name alike. Where no call has more than half
// of the ranks (always among two), no rank is to blame.

namespace unisono::engines {

/// The call of one rank.
struct Ballot {
  int rank = 0;           ///< the rank as errors name it
  std::string key = {};   ///< equal for equal calls
  std::string call = {};  ///< as text
};
/// Returns the ballot of a rank that has published this.
Ballot ballot_of(int rank, const Signature& signature, std::string_view label);

struct Decision {
  std::vector<int> blamed = {};              ///< ascending; empty: no rank
  std::optional<std::string> majority = {};  ///< the key that more than half of the ballots have
  int ranks = 0;                             ///< the number of ballots
  std::string calls = {};                    ///< "rank 1 all_reduce(…), ranks 0, 2 all_reduce(…)", those to blame first
  std::optional<int> culprit() const { return blamed.empty() ? std::nullopt : std::optional(blamed.front()); }
  bool blames(int rank) const { return std::find(blamed.begin(), blamed.end(), rank) != blamed.end(); }
};
/// Decides on at least two ballots, not all with the same key.
Decision decide(std::span<const Ballot> ballots);

/// Two ranks whose calls do not fit each other, with a text. A rank that is in more conflicts than any other is the culprit.
struct Conflict {
  int a = 0, b = 0;
  std::string text = {};
};
Decision decide(std::span<const Conflict> conflicts, int ranks);

/// Returns the message for a rank: "the ranks called different things: …". `own_is_blamed`: the rank is one of those to blame.
std::string describe(const Decision& decision, bool own_is_blamed);

/// The Mismatch that a comparison throws. The group makes the user's error of it.
class Disagreement final : public Mismatch {
 public:
  Disagreement(const std::string& text, ErrorInfo info, int ranks, std::vector<Ballot> ballots = {})
      : Mismatch(text, std::move(info)), ranks_(ranks), ballots_(std::move(ballots)) {}
  /// Returns the number of ranks that were compared.
  int ranks() const noexcept { return ranks_; }
  const std::vector<Ballot>& ballots() const noexcept { return ballots_; }

 private:
  int ranks_;
  std::vector<Ballot> ballots_;
};
/// Makes the error of a rank, by its name in errors, whose call was compared with those of the others.
Disagreement disagreement_on(const CollectiveCall& call, int own_name, const Decision& decision, std::vector<Ballot> ballots);
inline constexpr const char* mismatch_hint = "every rank must make the same calls in the same order; nothing was moved, the group stays usable";

}  // namespace unisono::engines
