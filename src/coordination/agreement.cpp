#include "coordination/agreement.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>

#include "base/deadline.h"
#include "unisono/detail/switches.h"
#include "unisono/error.h"

namespace unisono::coordination {
namespace {

constexpr auto time_until_told = std::chrono::milliseconds(100);  ///< of waiting, before other ranks are told for whom

/// The message from the first rank of a host to the others of that host.
struct SharedDecision {
  std::int32_t agrees = 1;
  std::int32_t culprit = -1;
  std::int32_t ranks = 0;
  std::int32_t has_majority = 0;
  engines::Signature majority{};
  char calls[216]{};
};
static_assert(sizeof(SharedDecision) == 256);

/// The pause between two looks for dead ranks while ranks are known to differ: the death of a rank causes no notification.
constexpr std::chrono::nanoseconds look_period = std::chrono::milliseconds(20);

class SpanningAgreement final : public Task {
 public:
  SpanningAgreement(const AgreementParts& parts, std::uint64_t number, const CollectiveCall& call)
      : parts_(parts),
        topology_(*parts.topology),
        number_(number),
        call_(call),
        signature_(engines::signature_of(call)),
        next_telling_(base::Clock::now() + time_until_told) {}

  bool advance() override {
    parts_.poll();
    for (;;) {
      switch (phase_) {
        case Phase::host:
          if (parts_.host != nullptr && !agree_on_host()) return tell_who_is_late(), false;
          phase_ = topology_.is_leader() ? Phase::hosts : Phase::verdict;
          if (phase_ == Phase::verdict) parts_.all_but_told();
          if (topology_.is_leader()) state(own_statement());
          break;
        case Phase::hosts:
          if (!all_stated()) return tell_that_we_are_here(), false;
          phase_ = Phase::verdict;
          parts_.all_but_told();
          break;
        case Phase::verdict:
          if (parts_.host != nullptr && !share_verdict()) return false;
          parts_.ballots->forget_before(number_);
          phase_ = Phase::done;
          if (shared_decision_.agrees == 0) throw_as_told();
          return true;
        case Phase::done: return true;
      }
    }
  }

  std::vector<int> waiting_for() const override {
    if (phase_ == Phase::done) return {};
    std::vector<int> ranks = late_here();
    for (int h = 0; h < topology_.host_count(); ++h) {
      if (h == topology_.host() || parts_.ballots->of(h, number_) != nullptr) continue;
      // The ranks of a host say for whom they wait. A host from which nothing has come has no rank in the call yet.
      const auto awaited = parts_.ballots->awaited_by(h, number_);
      for (int r = 0; r < topology_.size(); ++r) {
        if (topology_.host_of(r) == h && (!awaited || std::find(awaited->begin(), awaited->end(), r) != awaited->end())) ranks.push_back(r);
      }
    }
    if (ranks.empty() && inner_) ranks = global(inner_->waiting_for());
    std::sort(ranks.begin(), ranks.end());
    return ranks;
  }
  // Ranks of this host notify. The Link's thread notifies of messages from other hosts.
  bool wakes_waiter() const override { return true; }

 private:
  enum class Phase { host, hosts, verdict, done };

  std::vector<int> global(std::vector<int> locals) const {
    for (int& r : locals) r = topology_.members[static_cast<std::size_t>(r)];
    return locals;
  }

  bool agree_on_host() {
    if (!inner_) inner_ = parts_.host->start_agreement(call_);
    try {
      if (!inner_->advance()) return false;
    } catch (const engines::Disagreement& disagreement) {
      phase_ = Phase::done;
      own_ballots_ = disagreement.ballots();
      decide_for_this_rank();
    }
    inner_.reset();
    return true;
  }

  /// Called on a host whose ranks differ: each of its ranks decides by itself.
  [[noreturn]] void decide_for_this_rank() {
    if (topology_.is_leader()) tell_others(Ballots::encode(number_, own_statement()));
    const engines::Decision decision = decide();
    throw_mismatch(decision.culprit(), engines::describe(decision, decision.blames(topology_.rank)), decision.ranks);
  }

  Ballots::Statement own_statement() const {
    return {.agrees = own_ballots_.empty(), .signature = signature_, .label = engines::label_of(call_), .ballots = own_ballots_};
  }

  void state(const Ballots::Statement& statement) {
    const std::string text = Ballots::encode(number_, statement);
    for (int h = 0; h < topology_.host_count(); ++h) {
      if (h != topology_.host()) parts_.tell(topology_.leaders[static_cast<std::size_t>(h)], text);
    }
  }

  /// Called by the first rank of a host whose ranks agree.
  bool all_stated() {
    bool all = true, same = true;
    for (int h = 0; h < topology_.host_count(); ++h) {
      if (h == topology_.host()) continue;
      const auto* statement = parts_.ballots->of(h, number_);
      all = all && statement != nullptr;
      same = same && (statement == nullptr || (statement->agrees && statement->signature == signature_));
    }
    if (same) return all;
    const engines::Decision decision = decide();
    shared_decision_.agrees = 0;
    shared_decision_.culprit = decision.culprit().value_or(-1);
    shared_decision_.ranks = decision.ranks;
    shared_decision_.has_majority = decision.majority ? 1 : 0;
    if (decision.majority) std::memcpy(&shared_decision_.majority, decision.majority->data(), sizeof shared_decision_.majority);
    std::size_t size = decision.calls.copy(shared_decision_.calls, sizeof shared_decision_.calls - 1);
    // An incomplete character at the end is removed.
    while (size < decision.calls.size() && size > 0 && (static_cast<unsigned char>(decision.calls[size]) & 0xc0U) == 0x80U)
      shared_decision_.calls[--size] = '\0';
    return true;
  }

  /// Called when some ranks are known to differ. The calls of the others tell who differs from most.
  engines::Decision decide() {
    const base::Deadline deadline(detail::ballot_time());
    while (!take_statements() && !deadline.passed() && !nothing_more_comes()) {
      const std::uint32_t seen = parts_.notifier->prepare_wait();
      if (!take_statements()) parts_.notifier->wait(seen, std::min<std::chrono::nanoseconds>(deadline.left(), look_period));
      parts_.notifier->finish_wait();
    }
    parts_.ballots->leave_out(number_, missing_);
    const std::set<int> left_out = parts_.ballots->left_out(number_);
    if (!left_out.empty()) tell_others(Ballots::encode_left_out(number_, left_out));
    const std::vector<engines::Ballot> counted = ballots_without(left_out);
    const bool differ = std::ranges::any_of(counted, [&](const engines::Ballot& ballot) { return ballot.key != counted.front().key; });
    return engines::decide(differ ? counted : ballots_without({}));  // several hosts have left each other out: all known ballots count
  }

  /// Returns true when every host has stated, or is left out by others.
  bool take_statements() {
    parts_.poll();
    missing_.clear();
    const std::set<int> left_out = parts_.ballots->left_out(number_);
    for (int h = 0; h < topology_.host_count(); ++h) {
      if (h == topology_.host()) continue;
      const auto* statement = parts_.ballots->of(h, number_);
      if (statement == nullptr && !left_out.contains(h)) missing_.insert(h);
      // Each rank of such a host decides by itself, and only its first rank has been told so far.
      if (statement == nullptr || statement->agrees || !topology_.is_leader() || !answered_.insert(h).second) continue;
      const std::string text = Ballots::encode(number_, own_statement());
      for (int r = 0; r < topology_.size(); ++r) {
        if (topology_.host_of(r) == h) parts_.tell(r, text);
      }
    }
    return missing_.empty();
  }

  /// Returns true where no missing host can state any more: a statement comes from a host's first rank, and before the notice that this rank is gone.
  bool nothing_more_comes() const {
    if (parts_.is_over()) return true;
    const std::vector<int> gone = parts_.gone();
    return std::ranges::all_of(missing_,
                               [&](int host) { return std::ranges::find(gone, topology_.leaders[static_cast<std::size_t>(host)]) != gone.end(); });
  }

  /// Returns the ballots of all ranks that are known to have come.
  std::vector<engines::Ballot> ballots_without(const std::set<int>& hosts) const {
    std::vector<engines::Ballot> ballots;
    for (int h = 0; h < topology_.host_count(); ++h) {
      const Ballots::Statement own = own_statement();
      const Ballots::Statement* statement = h == topology_.host() ? &own : parts_.ballots->of(h, number_);
      if (statement == nullptr || hosts.contains(h)) continue;
      ballots.insert(ballots.end(), statement->ballots.begin(), statement->ballots.end());
      for (int r = 0; statement->agrees && r < topology_.size(); ++r) {
        if (topology_.host_of(r) == h) ballots.push_back(engines::ballot_of(r, statement->signature, statement->label));
      }
    }
    return ballots;
  }

  void tell_others(const std::string& text) {
    for (int r = 0; r < topology_.size(); ++r) {
      if (!topology_.here(r)) parts_.tell(r, text);
    }
  }

  bool share_verdict() {
    if (!inner_) {
      shared_.operation = Operation::broadcast;
      shared_.in = shared_.out = TensorView(&shared_decision_, DType::uint8, sizeof shared_decision_);
      shared_.count = sizeof shared_decision_;
      shared_.root = 0;
      inner_ = parts_.host->start(shared_);
    }
    if (!inner_->advance()) return false;
    inner_.reset();
    return true;
  }

  std::vector<int> late_here() const { return phase_ == Phase::host && inner_ ? global(inner_->waiting_for()) : std::vector<int>(); }

  // The first ranks of the hosts were told before; this tells the others.
  void tell_that_we_are_here() {
    if (base::Clock::now() < next_telling_) return;
    next_telling_ = base::Clock::time_point::max();
    const std::string text = Ballots::encode(number_, own_statement());
    for (int r = 0; r < topology_.size(); ++r) {
      if (!topology_.here(r) && topology_.leaders[static_cast<std::size_t>(topology_.host_of(r))] != r) parts_.tell(r, text);
    }
  }

  // The ranks of other hosts cannot see for whom this rank waits. They need it to name the right ranks when their deadline passes.
  void tell_who_is_late() {
    const auto now = base::Clock::now();
    if (now < next_telling_) return;
    next_telling_ = now + time_until_told;
    std::vector<int> late = late_here();
    if (late == told_) return;
    tell_others(Ballots::encode_waiting(number_, late));
    told_ = std::move(late);
  }

  [[noreturn]] void throw_as_told() {
    const bool blamed = shared_decision_.has_majority != 0 && signature_ != shared_decision_.majority;
    throw_mismatch(shared_decision_.culprit < 0 ? std::nullopt : std::optional<int>(shared_decision_.culprit),
                   engines::describe(engines::Decision{.calls = shared_decision_.calls}, blamed), shared_decision_.ranks);
  }
  [[noreturn]] void throw_mismatch(std::optional<int> culprit, const std::string& text, int ranks) {
    ErrorInfo info;
    info.operation = name_of(call_);
    info.sequence = call_.sequence;
    info.rank = topology_.rank;
    info.culprit = culprit;
    info.hint = engines::mismatch_hint;
    throw engines::Disagreement(text, std::move(info), ranks);
  }

  AgreementParts parts_;
  const GroupTopology& topology_;
  std::uint64_t number_;
  const CollectiveCall& call_;
  engines::Signature signature_;
  std::vector<engines::Ballot> own_ballots_;  // where the ranks of this host differ
  Phase phase_ = Phase::host;
  std::unique_ptr<Task> inner_;
  SharedDecision shared_decision_;
  CollectiveCall shared_;
  base::Clock::time_point next_telling_;
  std::vector<int> told_;
  std::set<int> missing_;   // hosts from which nothing has come, while ranks are known to differ
  std::set<int> answered_;  // hosts whose ranks have all been told the calls of this host
};

}  // namespace

std::unique_ptr<Task> start_agreement(const AgreementParts& parts, std::uint64_t number, const CollectiveCall& call) {
  return std::make_unique<SpanningAgreement>(parts, number, call);
}

}  // namespace unisono::coordination
