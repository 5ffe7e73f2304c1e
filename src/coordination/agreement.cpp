#include "coordination/agreement.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>

#include "base/deadline.h"
#include "coordination/dispute.h"
#include "unisono/error.h"

namespace unisono::coordination {
namespace {

/// The time of waiting before other ranks are told for whom. Of many ranks each telling costs all others time, and a call that is late by so little
/// is no rare event.
std::chrono::milliseconds time_until_told(const GroupTopology& topology) {
  constexpr int many_ranks = 64;
  return topology.size() > many_ranks ? std::chrono::milliseconds(1000) : std::chrono::milliseconds(100);
}

/// The message from the first rank of a host to the others of that host.
struct SharedDecision {
  std::int32_t agrees = 1;
  std::int32_t culprit = -1;
  std::int32_t ranks = 0;
  std::int32_t has_majority = 0;
  std::int32_t callables_differ = 0;  // where it agrees
  engines::Signature majority{};
  char calls[208]{};
};
static_assert(sizeof(SharedDecision) == 256);

class SpanningAgreement final : public Task {
 public:
  SpanningAgreement(const AgreementParts& parts, std::uint64_t number, const CollectiveCall& call, Carried* carried)
      : parts_(parts),
        topology_(*parts.topology),
        number_(number),
        call_(call),
        signature_(engines::signature_of(call)),
        carried_(carried),
        exchange_(topology_, parts.route, *parts.memory, number, signature_, carried, room_for(carried)),
        next_telling_(base::Clock::now() + time_until_told(topology_)) {
    if (carried_ != nullptr && !carried_->is_direct() && !carried_->own.empty() && parts_.host == nullptr)
      std::ranges::copy(carried_->own, own_place());
  }

  bool advance() override {
    for (;;) {
      switch (phase_) {
        case Phase::host:
          if (parts_.host != nullptr && !agree_on_host()) return tell_who_is_late(), false;
          if (phase_ == Phase::host) phase_ = parts_.host != nullptr && gathers_on_host() ? Phase::gathering : after_host();
          break;
        case Phase::gathering:
          if (!gather_on_host()) return false;
          phase_ = after_host();
          break;
        case Phase::hosts:
          if (!end_exchange(exchange_.advance())) return tell_that_we_are_here(), false;
          break;
        case Phase::dispute:
          if (!decide()) return false;
          break;
        case Phase::verdict:
          if (parts_.host != nullptr && !share_verdict()) return false;
          parts_.ballots->forget_before(number_);
          phase_ = Phase::done;
          if (decision().agrees == 0) throw_as_told();
          if (decision().callables_differ != 0) throw engines::CallablesDiffer();
          if (carried_ != nullptr) carried_->all = all();
          if (carried_ != nullptr) carried_->arrived = &parts_.memory->arrived;
          return true;
        case Phase::done: return true;
      }
    }
  }

  std::vector<int> waiting_for() const override {
    if (phase_ == Phase::dispute || phase_ == Phase::done) return {};
    std::vector<int> ranks = late_here();
    for (int h = 0; h < topology_.host_count(); ++h) {
      if (h == topology_.host() || parts_.ballots->of(h, number_) != nullptr || exchange_.has_come(h)) continue;
      // The ranks of a host say for whom they wait. A host from which nothing has come has no rank in the call yet.
      const auto awaited = parts_.ballots->awaited_by(h, number_);
      for (int r = 0; r < topology_.size(); ++r) {
        if (topology_.host_of(r) != h || parts_.has_left_after(r, number_)) continue;
        if (!awaited || std::find(awaited->begin(), awaited->end(), r) != awaited->end()) ranks.push_back(r);
      }
    }
    if (ranks.empty() && inner_) ranks = global(inner_->waiting_for());
    std::sort(ranks.begin(), ranks.end());
    return ranks;
  }
  // Ranks of this host notify. The Link's thread notifies of messages from other hosts.
  bool wakes_waiter() const override { return true; }
  bool sleep(std::chrono::nanoseconds at_most) override {
    return phase_ == Phase::hosts && parts_.sleep([this] { return exchange_.look() || parts_.ballots->is_disputed(number_, signature_); }, at_most);
  }

 private:
  enum class Phase { host, gathering, hosts, dispute, verdict, done };

  std::vector<int> global(std::vector<int> locals) const {
    for (int& r : locals) r = topology_.members[static_cast<std::size_t>(r)];
    return locals;
  }

  // The decision of the host's first rank lies before the contributions, so that both go to the other ranks of the host at once.
  std::byte* room_for(const Carried* carried) const {
    parts_.memory->all.resize(sizeof(SharedDecision) + (carried == nullptr ? 0 : carried->bytes(topology_)));
    new (parts_.memory->all.data()) SharedDecision();
    return parts_.memory->all.data() + sizeof(SharedDecision);
  }
  SharedDecision& decision() const { return *std::launder(reinterpret_cast<SharedDecision*>(parts_.memory->all.data())); }
  std::byte* all() const { return parts_.memory->all.data() + sizeof(SharedDecision); }
  std::byte* place_of_host() const { return all() + carried_->begin_of_host(topology_.host(), topology_); }
  std::byte* own_place() const { return carried_->only < 0 ? place_of_host() + carried_->each * static_cast<std::size_t>(topology_.local) : all(); }

  bool agree_on_host() {
    if (!inner_) {
      parts_.poll();
      inner_ = parts_.host->start_agreement(call_);
    }
    try {
      if (!inner_->advance()) return parts_.poll(), false;
    } catch (const engines::Disagreement& disagreement) {
      own_ballots_ = disagreement.ballots();
      if (topology_.is_leader()) parts_.tell_others(Ballots::encode(number_, own_statement()));
      begin_dispute();
    } catch (const engines::CallablesDiffer&) {
      exchange_.note_callables_differ();
    }
    inner_.reset();
    return true;
  }

  bool gathers_on_host() const { return carried_ != nullptr && carried_->bytes_of_host(topology_.host(), topology_) > 0; }

  /// Advances a collective of this host's ranks; `make` fills `shared_` in when it begins.
  template <class Make>
  bool on_host(Make&& make) {
    if (!inner_) {
      shared_ = {};
      make();
      inner_ = parts_.host->start(shared_);
    }
    if (!inner_->advance()) return parts_.poll(), false;
    inner_.reset();
    return true;
  }

  bool gather_on_host() {
    return on_host([this] {
      shared_.operation = carried_->only < 0 ? Operation::all_gather : Operation::broadcast;
      shared_.count = carried_->each;
      shared_.out = TensorView(place_of_host(), DType::uint8, carried_->bytes_of_host(topology_.host(), topology_));
      shared_.in = shared_.out;
      if (carried_->only < 0) shared_.in = TensorView(const_cast<std::byte*>(carried_->own.data()), DType::uint8, carried_->each);
      else shared_.root = topology_.local_of(carried_->only);
      if (carried_->only == topology_.rank) std::ranges::copy(carried_->own, all());
    });
  }

  Phase after_host() {
    if (topology_.is_leader()) return Phase::hosts;
    parts_.all_but_told();
    return Phase::verdict;
  }

  Ballots::Statement own_statement() const {
    return {.agrees = own_ballots_.empty(), .signature = signature_, .label = engines::label_of(call_), .ballots = own_ballots_};
  }

  /// Called on the first rank of a host whose ranks agree. Returns false while it waits for other hosts.
  bool end_exchange(Exchange::State exchanged) {
    if (exchanged == Exchange::State::agreed) {
      decision().callables_differ = exchange_.callables_differ() ? 1 : 0;
      hosts_are_done();
      return true;
    }
    if (exchanged == Exchange::State::waiting && !parts_.ballots->is_disputed(number_, signature_)) return false;
    const std::string text = Ballots::encode(number_, own_statement());
    for (int h = 0; h < topology_.host_count(); ++h) {
      if (h != topology_.host()) parts_.tell(topology_.leaders[static_cast<std::size_t>(h)], text);
    }
    begin_dispute();
    return true;
  }

  void begin_dispute() {
    phase_ = Phase::dispute;
    dispute_.emplace(parts_, number_, own_statement(), exchange_.differing());
  }

  /// Returns false while the ranks' calls are being collected. Where the ranks of this host differ, each of them decides by itself.
  bool decide() {
    const auto decision = dispute_->advance();
    if (!decision) return false;
    dispute_.reset();
    if (!own_ballots_.empty()) {
      phase_ = Phase::done;
      throw_mismatch(decision->culprit(), engines::describe(*decision, decision->blames(topology_.rank)), decision->ranks);
    }
    keep(*decision);
    hosts_are_done();
    return true;
  }

  void hosts_are_done() {
    phase_ = Phase::verdict;
    parts_.all_but_told();
  }

  void keep(const engines::Decision& made) {
    SharedDecision& shared = decision();
    shared.agrees = 0;
    shared.culprit = made.culprit().value_or(-1);
    shared.ranks = made.ranks;
    shared.has_majority = made.majority ? 1 : 0;
    if (made.majority) std::memcpy(&shared.majority, made.majority->data(), sizeof shared.majority);
    std::size_t size = made.calls.copy(shared.calls, sizeof shared.calls - 1);
    // An incomplete character at the end is removed.
    while (size < made.calls.size() && size > 0 && (static_cast<unsigned char>(made.calls[size]) & 0xc0U) == 0x80U) shared.calls[--size] = '\0';
  }

  bool share_verdict() {
    return on_host([this] {
      shared_.operation = Operation::broadcast;
      shared_.in = shared_.out = TensorView(parts_.memory->all.data(), DType::uint8, parts_.memory->all.size());
      shared_.count = parts_.memory->all.size();
      shared_.root = 0;
    });
  }

  std::vector<int> late_here() const { return phase_ == Phase::host && inner_ ? global(inner_->waiting_for()) : std::vector<int>(); }

  // An exchange tells few ranks who has come. All need it to name the right ranks when their deadline passes.
  void tell_that_we_are_here() {
    if (base::Clock::now() < next_telling_) return;
    next_telling_ = base::Clock::time_point::max();
    parts_.tell_others(Ballots::encode(number_, own_statement()));
  }

  // The ranks of other hosts cannot see for whom this rank waits. They need it to name the right ranks when their deadline passes.
  void tell_who_is_late() {
    const auto now = base::Clock::now();
    if (now < next_telling_) return;
    next_telling_ = now + time_until_told(topology_);
    std::vector<int> late = late_here();
    if (late == told_) return;
    parts_.tell_others(Ballots::encode_waiting(number_, late));
    told_ = std::move(late);
  }

  [[noreturn]] void throw_as_told() {
    const SharedDecision& shared = decision();
    const bool blamed = shared.has_majority != 0 && !engines::fit(signature_, shared.majority);
    throw_mismatch(shared.culprit < 0 ? std::nullopt : std::optional<int>(shared.culprit),
                   engines::describe(engines::Decision{.calls = shared.calls}, blamed), shared.ranks);
  }
  [[noreturn]] void throw_mismatch(std::optional<int> culprit, const std::string& text, int ranks) {
    throw engines::Disagreement(text,
                                {.operation = std::string(name_of(call_)),
                                 .sequence = call_.sequence,
                                 .rank = topology_.rank,
                                 .culprit = culprit,
                                 .hint = engines::mismatch_hint},
                                ranks);
  }

  const AgreementParts& parts_;
  const GroupTopology& topology_;
  std::uint64_t number_;
  const CollectiveCall& call_;
  engines::Signature signature_;
  Carried* carried_;
  Exchange exchange_;
  std::vector<engines::Ballot> own_ballots_;  // where the ranks of this host differ
  Phase phase_ = Phase::host;
  std::unique_ptr<Task> inner_;
  CollectiveCall shared_;
  base::Clock::time_point next_telling_;
  std::vector<int> told_;
  std::optional<Dispute> dispute_;  // while ranks are known to differ, and it is not decided who is to blame
};

}  // namespace

std::unique_ptr<Task> start_agreement(const AgreementParts& parts, std::uint64_t number, const CollectiveCall& call, Carried* carried) {
  return std::make_unique<SpanningAgreement>(parts, number, call, carried);
}

}  // namespace unisono::coordination
