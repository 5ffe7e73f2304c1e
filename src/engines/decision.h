#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engines/signature.h"
#include "unisono/error.h"

// Who is to blame where the ranks of a call have called different things. Of two opinions the one that more than half of the ranks share is taken for
// right; the ranks that differ from it are to blame, and the lowest of them is the error's culprit, the same on all ranks. Where no opinion has more
// than half of the ranks (always among two), nobody is to blame.

namespace unisono::engines {

/// What one rank has called.
struct Ballot {
  int rank = 0;           ///< as errors call it
  std::string key = {};   ///< the same for the same call
  std::string call = {};  ///< as text
};
/// The ballot of a rank that has published this.
Ballot ballot_of(int rank, const Signature& signature, std::string_view label);

struct Decision {
  std::vector<int> blamed = {};              ///< ascending; empty: nobody
  std::optional<std::string> majority = {};  ///< the key that more than half of the ballots have
  int ranks = 0;                             ///< how many ballots there were
  std::string calls = {};                    ///< "rank 1 all_reduce(…), ranks 0, 2 all_reduce(…)", those to blame first
  std::optional<int> culprit() const { return blamed.empty() ? std::nullopt : std::optional(blamed.front()); }
  bool blames(int rank) const { return std::find(blamed.begin(), blamed.end(), rank) != blamed.end(); }
};
/// At least two ballots, not all with the same key.
Decision decide(std::span<const Ballot> ballots);

/// Of two ranks whose calls do not fit each other, and how: a rank that is in conflict with several while no other is, is the culprit.
struct Conflict {
  int a = 0, b = 0;
  std::string text = {};
};
Decision decide(std::span<const Conflict> conflicts, int ranks);

/// What a rank says of it: "the ranks called different things: …". `own_is_blamed`: the rank is one of those to blame.
std::string describe(const Decision& decision, bool own_is_blamed);

/// The Mismatch that a comparison throws. The group makes the user's error of it.
class Disagreement final : public Mismatch {
 public:
  Disagreement(const std::string& text, ErrorInfo info, int ranks, std::vector<Ballot> ballots = {})
      : Mismatch(text, std::move(info)), ranks_(ranks), ballots_(std::move(ballots)) {}
  /// How many were compared.
  int ranks() const noexcept { return ranks_; }
  const std::vector<Ballot>& ballots() const noexcept { return ballots_; }

 private:
  int ranks_;
  std::vector<Ballot> ballots_;
};
inline constexpr const char* mismatch_hint = "every rank must make the same calls in the same order; nothing was moved, the group stays usable";

}  // namespace unisono::engines
