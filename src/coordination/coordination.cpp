#include "coordination/coordination.h"

#include <algorithm>
#include <utility>

#include "base/hash.h"
#include "coordination/agreement.h"
#include "coordination/failure_state.h"

namespace unisono::coordination {
namespace {

constexpr std::chrono::seconds time_between_two(1);  ///< tellings of this rank's whereabouts
constexpr std::size_t most_told = 4;                 ///< ranks

}  // namespace

Coordination::Coordination(CoordinationParts parts)
    : parts_(std::move(parts)), failures_(parts_.host), detector_(parts_), group_id_(base::stable_hash(parts_.key)) {
  if (is_one_host()) return;
  if (!parts_.whereabouts) parts_.whereabouts = std::make_shared<Whereabouts>();
  for (int r = 0; r < size(); ++r) {
    if (!parts_.topology.here(r)) others_.push_back(parts_.global(r));
  }
  notices_ = std::make_unique<Notices>(parts_.link, group_id_, parts_.global_ranks);
  for (const NoticeKind kind : {NoticeKind::ballot, NoticeKind::waiting, NoticeKind::left_out}) {
    notices_->handle(kind, [this](int from, std::string_view notice) { ballots_.take(parts_.topology.host_of(from), notice); });
  }
  notices_->handle(NoticeKind::left, [this](int from, std::string_view notice) {
    base::ByteReader content = Notices::content_of(notice);
    const auto agreements = content.get<std::uint64_t>();
    const auto how = static_cast<Leaving>(std::min(content.get<std::uint8_t>(), static_cast<std::uint8_t>(last_leaving)));
    detector_.take_leaving(from, agreements, how);
  });
  notices_->handle(NoticeKind::whereabouts,
                   [this](int from, std::string_view notice) { parts_.whereabouts->take(parts_.global(from), Notices::content_of(notice).text()); });
  notices_->handle(NoticeKind::wait_chain,
                   [this](int, std::string_view notice) { parts_.whereabouts->chains().take(Notices::content_of(notice).rest()); });
  notices_->handle(NoticeKind::failure, [this](int, std::string_view notice) {
    if (const auto failure = decode_failure(notice, size())) failures_.take_announced(*failure);
  });
}

Coordination::~Coordination() = default;

void Coordination::begin() {
  if (notices_) notices_->begin();
}

void Coordination::end() {
  if (!notices_) return;
  notices_->end();
  parts_.link->end(~group_id_);
}

base::Notifier* Coordination::notifier() {
  if (parts_.host.engine) return &parts_.host.engine->memory()->notifier(parts_.topology.local);
  return parts_.notifier.get();
}

base::Neighbours* Coordination::neighbours() {
  return parts_.host.engine && !parts_.host.engine->is_crowded() ? &parts_.host.engine->neighbours() : nullptr;
}

base::Notifier* Coordination::notifier_of(int rank) {
  if (rank == parts_.topology.rank) return notifier();
  return parts_.host.engine && parts_.topology.here(rank) ? &parts_.host.engine->memory()->notifier(parts_.topology.local_of(rank)) : nullptr;
}

std::unique_ptr<const AgreementParts> Coordination::parts_of_agreement() {
  transport::Link& link = *parts_.link;
  return std::make_unique<AgreementParts>(AgreementParts{
      .topology = &parts_.topology,
      .host = parts_.host.engine.get(),
      .ballots = &ballots_,
      .tell = [this](int r, const std::string& notice) { notices_->tell(r, notice); },
      .tell_others = [this](const std::string& notice) { notices_->announce(others_, notice, transport::Link::Announcement::call); },
      // The number keeps these messages apart from other traffic of the group, and the group's failure ends it.
      .route = {.mail = &link, .group = ~group_id_, .global_ranks = &parts_.global_ranks},
      .memory = &exchange_memory_,
      .poll = [this] { poll(); },
      .sleep = [&link](const std::function<bool()>& is_over, std::chrono::nanoseconds at_most) { return link.sleep(is_over, at_most); },
      .is_over = [this] { return failure().has_value(); },
      .has_left_after = [this](int r, std::uint64_t number) { return detector_.has_left_after(r, number); },
      .gone = [this] { return detector_.gone(); },
      .set_disputed = [this](bool is_disputed) { is_disputed_.store(is_disputed, std::memory_order_release); },
      .all_but_told = [this] { detector_.set_agreed(true); }});
}

std::unique_ptr<Task> Coordination::start_agreement(const CollectiveCall& call, Carried* carried) {
  if (is_one_host()) return parts_.host.engine->start_agreement(call);
  if (!agreement_parts_) {
    agreement_parts_ = parts_of_agreement();
    exchange_memory_.is_crowded = is_crowded();
  }
  ++agreements_;
  return coordination::start_agreement(*agreement_parts_, agreements_, call, carried);
}

bool Coordination::agree(const CollectiveCall& call, Waiter& waiter, bool flag) { return parts_.host.engine->agree(call, waiter, flag); }

std::string Coordination::whereabouts_of(int rank) const {
  return topology().here(rank) ? std::string() : parts_.whereabouts->of(parts_.global(rank));
}

void Coordination::tell_whereabouts(std::span<const int> waiting_for, const std::function<std::string()>& text) {
  if (is_one_host() || size() > most_ranks_that_tell) return;
  const auto now = base::Clock::now();
  auto next = next_telling_.load();
  if (now < next || !next_telling_.compare_exchange_strong(next, now + time_between_two)) return;
  std::string notice;
  std::size_t told = 0;
  for (const int r : waiting_for) {
    if (topology().here(r) || told == most_told) continue;
    if (notice.empty()) notice = Notices::of_kind(NoticeKind::whereabouts).text(text()).take();
    notices_->tell(r, notice);
    ++told;
  }
}

// ---- failures ---------------------------------------------------------------------------------------------------

void Coordination::poison(const Failure& found) {
  Failure failure = found;
  if (failure.kind == Failure::Kind::timeout && failure.reporter < 0) failure.reporter = rank();
  failures_.record(failure);
  if (ended_engines_.exchange(true)) return;
  const Failure first = this->failure().value_or(failure);
  if (end_engines_) end_engines_(first);
  if (!is_one_host()) {
    notices_->announce(others_, encode_failure(first), transport::Link::Announcement::failure);
    parts_.link->end(~group_id_);
  }
  if (base::Notifier* own = notifier()) own->notify();
}

std::optional<Failure> Coordination::look_for_failures(std::span<const int> waiting_for, bool any_will_do, std::chrono::milliseconds patience) {
  if (auto known = failure()) return known;
  auto found = detector_.look(waiting_for, any_will_do, patience);
  if (!found) return found;
  // The loss of a rank is a consequence of the failure that another has announced.
  auto announced = failures_.announced();
  return announced ? announced : found;
}

void Coordination::leave(Leaving how, const std::function<void()>& end_engines, std::chrono::milliseconds at_most) {
  if (parts_.host.peers) parts_.host.peers->leave(how);
  using enum transport::Link::Announcement;
  if (!is_one_host()) {
    notices_->announce(others_, Notices::of_kind(NoticeKind::left).put(agreements_).put(static_cast<std::uint8_t>(how)).bytes(),
                       parts_.owns_link ? goodbye : leaving);
  }
  end_engines();
  if (parts_.owns_link) parts_.link->goodbye(at_most);
}

}  // namespace unisono::coordination
