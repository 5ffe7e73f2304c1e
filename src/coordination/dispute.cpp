#include "coordination/dispute.h"

#include <algorithm>
#include <string>

#include "unisono/detail/switches.h"

namespace unisono::coordination {

Dispute::Dispute(const AgreementParts& parts, std::uint64_t number, Ballots::Statement own,
                 std::optional<std::pair<int, engines::Signature>> differing)
    : parts_(parts),
      topology_(*parts.topology),
      number_(number),
      own_(std::move(own)),
      differing_(std::move(differing)),
      deadline_(detail::ballot_time()) {
  parts_.set_disputed(true);
}

std::optional<engines::Decision> Dispute::advance() {
  if (!take_statements() && !deadline_.passed() && !nothing_more_comes()) return std::nullopt;
  parts_.ballots->leave_out(number_, missing_);
  const std::set<int> left_out = parts_.ballots->left_out(number_);
  if (!left_out.empty()) parts_.tell_others(Ballots::encode_left_out(number_, left_out));
  const std::vector<engines::Ballot> counted = ballots_without(left_out);
  const bool differ = std::ranges::any_of(counted, [&](const engines::Ballot& ballot) { return ballot.key != counted.front().key; });
  return engines::decide(differ ? counted : ballots_without({}));  // several hosts have left each other out: all known ballots count
}

// Returns true when every host has stated, or is left out by others.
bool Dispute::take_statements() {
  parts_.poll();
  missing_.clear();
  const std::set<int> left_out = parts_.ballots->left_out(number_);
  for (int h = 0; h < topology_.host_count(); ++h) {
    if (h == topology_.host()) continue;
    const auto* statement = parts_.ballots->of(h, number_);
    if (statement == nullptr && !left_out.contains(h)) missing_.insert(h);
    // Each rank of such a host decides by itself, and only its first rank has been told so far.
    if (statement == nullptr || statement->agrees || !topology_.is_leader() || !answered_.insert(h).second) continue;
    const std::string text = Ballots::encode(number_, own_);
    for (int r = 0; r < topology_.size(); ++r) {
      if (topology_.host_of(r) == h) parts_.tell(r, text);
    }
  }
  return missing_.empty();
}

// Returns true where no missing host can state any more: a statement comes from a host's first rank, and before the notice that this rank is gone.
// Looking for ranks that are gone takes system calls, so it is done now and then.
bool Dispute::nothing_more_comes() {
  constexpr auto look_period = std::chrono::milliseconds(20);
  if (parts_.is_over()) return true;
  const auto now = base::Clock::now();
  if (now < next_look_) return false;
  next_look_ = now + look_period;
  const std::vector<int> gone = parts_.gone();
  return std::ranges::all_of(missing_,
                             [&](int host) { return std::ranges::find(gone, topology_.leaders[static_cast<std::size_t>(host)]) != gone.end(); });
}

// Returns the ballots of all ranks that are known to have come.
std::vector<engines::Ballot> Dispute::ballots_without(const std::set<int>& hosts) const {
  std::vector<engines::Ballot> ballots;
  for (int h = 0; h < topology_.host_count(); ++h) {
    const Ballots::Statement* statement = h == topology_.host() ? &own_ : parts_.ballots->of(h, number_);
    if (hosts.contains(h)) continue;
    if (statement == nullptr && differing_ && differing_->first == h) add_all_of(h, differing_->second, {}, ballots);
    if (statement == nullptr) continue;
    ballots.insert(ballots.end(), statement->ballots.begin(), statement->ballots.end());
    if (statement->agrees) add_all_of(h, statement->signature, statement->label, ballots);
  }
  return ballots;
}

void Dispute::add_all_of(int host, const engines::Signature& signature, std::string_view label, std::vector<engines::Ballot>& to) const {
  for (int r = 0; r < topology_.size(); ++r) {
    if (topology_.host_of(r) == host) to.push_back(engines::ballot_of(r, signature, label));
  }
}

}  // namespace unisono::coordination
