#include "engines/decision.h"

#include <algorithm>
#include <map>

#include "base/printable.h"

namespace unisono::engines {
namespace {

constexpr std::size_t most_calls_shown = 4;

struct Party {
  const Ballot* first;
  std::vector<int> ranks;
};

}  // namespace

Ballot ballot_of(int rank, const Signature& signature, std::string_view label) {
  const Signature compared = without_callable(signature);
  const std::uint64_t words[]{compared.what, compared.count, compared.extra};
  return {.rank = rank, .key = std::string(reinterpret_cast<const char*>(words), sizeof words), .call = describe(signature, label)};
}

Decision decide(std::span<const Ballot> ballots) {
  std::vector<Party> parties;
  for (const Ballot& ballot : ballots) {
    auto party = std::ranges::find_if(parties, [&](const Party& p) { return p.first->key == ballot.key; });
    if (party == parties.end()) party = parties.insert(parties.end(), {&ballot, {}});
    party->ranks.push_back(ballot.rank);
  }
  for (Party& party : parties) std::ranges::sort(party.ranks);
  std::ranges::sort(parties, {}, [](const Party& p) { return p.ranks.front(); });
  Decision decision{.ranks = static_cast<int>(ballots.size())};
  const auto many = std::ranges::find_if(parties, [&](const Party& p) { return 2 * p.ranks.size() > ballots.size(); });
  if (many != parties.end()) {
    decision.majority = many->first->key;
    std::rotate(many, many + 1, parties.end());  // the last
    for (auto party = parties.begin(); party + 1 != parties.end(); ++party)
      decision.blamed.insert(decision.blamed.end(), party->ranks.begin(), party->ranks.end());
    std::ranges::sort(decision.blamed);
  }
  // The message shows the first of many different calls, and the majority's.
  const std::size_t shown = std::min(parties.size(), most_calls_shown);
  for (std::size_t i = 0; i < shown; ++i) {
    const Party& party = i + 1 == shown ? parties.back() : parties[i];
    if (i > 0) decision.calls += i + 1 == shown && shown < parties.size() ? ", …, " : ", ";
    decision.calls += base::name_ranks(party.ranks) + " " + party.first->call;
  }
  return decision;
}

Decision decide(std::span<const Conflict> conflicts, int ranks) {
  std::map<int, int> count;
  for (const Conflict& conflict : conflicts) ++count[conflict.a], ++count[conflict.b];
  const auto most = std::ranges::max_element(count, {}, [](const auto& entry) { return entry.second; });
  const bool is_alone = std::ranges::count_if(count, [&](const auto& entry) { return entry.second == most->second; }) == 1;
  Decision decision{.ranks = ranks, .calls = conflicts.front().text};
  if (!is_alone) return decision;
  decision.blamed = {most->first};
  decision.calls = std::ranges::find_if(conflicts, [&](const Conflict& c) { return c.a == most->first || c.b == most->first; })->text;
  return decision;
}

std::string describe(const Decision& decision, bool own_is_blamed) {
  return std::string("the ranks called different things") + (own_is_blamed ? ", this rank another than most: " : ": ") + decision.calls;
}

Disagreement disagreement_on(const CollectiveCall& call, int own_name, const Decision& decision, std::vector<Ballot> ballots) {
  ErrorInfo info;
  info.operation = name_of(call);
  info.sequence = call.sequence;
  info.rank = own_name;
  info.culprit = decision.culprit();
  info.hint = mismatch_hint;
  return {describe(decision, decision.blames(own_name)), std::move(info), decision.ranks, std::move(ballots)};
}

}  // namespace unisono::engines
