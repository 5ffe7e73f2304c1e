#include "coordination/coordination.h"

#include <algorithm>
#include <utility>

#include "base/hash.h"
#include "coordination/agreement.h"
#include "coordination/failure_text.h"

namespace unisono::coordination {
namespace {

constexpr auto longest_goodbye = std::chrono::milliseconds(5000);  ///< for data that is still to be sent

}  // namespace

Coordination::Coordination(CoordinationParts parts) : parts_(std::move(parts)), topology_(parts_.topology), group_id_(base::stable_hash(parts_.key)) {
  if (is_one_host()) return;
  notices_ = std::make_unique<Notices>(parts_.link, group_id_, parts_.global_ranks);
  for (const NoticeKind kind : {NoticeKind::ballot, NoticeKind::waiting, NoticeKind::left_out}) {
    notices_->handle(kind, [this](int from, std::string_view notice) { ballots_.take(topology_.host_of(from), notice); });
  }
  notices_->handle(NoticeKind::left, [this](int from, std::string_view) {
    const std::lock_guard lock(mutex_);
    left_.insert(from);
  });
  notices_->handle(NoticeKind::failure, [this](int, std::string_view notice) {
    const std::lock_guard lock(mutex_);
    if (announced_) return;
    announced_ = decode_failure(notice);
    announced_at_ = base::Clock::now();
    is_announced_.store(true, std::memory_order_release);
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
  if (parts_.host.engine) return &parts_.host.engine->segment().notifier(topology_.local);
  return parts_.notifier.get();
}

base::Notifier* Coordination::notifier_of(int rank) {
  if (rank == topology_.rank) return notifier();
  return parts_.host.engine && topology_.here(rank) ? &parts_.host.engine->segment().notifier(topology_.local_of(rank)) : nullptr;
}

std::unique_ptr<const AgreementParts> Coordination::parts_of_agreement() {
  transport::Link& link = *parts_.link;
  return std::make_unique<AgreementParts>(AgreementParts{
      .topology = &topology_,
      .host = parts_.host.engine.get(),
      .ballots = &ballots_,
      .tell = [this](int r, const std::string& notice) { notices_->tell(r, notice); },
      // The number keeps these messages apart from other traffic of the group, and the group's failure ends it.
      .route = {.mail = &link, .group = ~group_id_, .global_ranks = &parts_.global_ranks},
      .memory = &exchange_memory_,
      .poll = [this] { poll(); },
      .sleep = [&link](const std::function<bool()>& is_over, std::chrono::nanoseconds at_most) { return link.sleep(is_over, at_most); },
      .notifier = notifier(),
      .is_over = [this] { return failure().has_value(); },
      .gone = [this] { return gone(); },
      .all_but_told = [this] { agreed_.store(true, std::memory_order_release); }});
}

std::unique_ptr<Task> Coordination::start_agreement(const CollectiveCall& call, Carried* carried) {
  if (is_one_host()) return parts_.host.engine->start_agreement(call);
  if (!agreement_parts_) {
    agreement_parts_ = parts_of_agreement();
    exchange_memory_.is_crowded = is_crowded();
  }
  return coordination::start_agreement(*agreement_parts_, ++agreements_, call, carried);
}

bool Coordination::agree(const CollectiveCall& call, Waiter& waiter, bool flag) { return parts_.host.engine->agree(call, waiter, flag); }

void Coordination::tell_others(std::string_view notice) {
  for (int r = 0; r < size(); ++r) {
    if (!topology_.here(r)) notices_->tell(r, notice);
  }
}

void Coordination::leave(const std::function<void()>& end_engines) {
  if (parts_.host.peers) parts_.host.peers->leave();
  if (!is_one_host()) tell_others(Notices::of_kind(NoticeKind::left).bytes());
  end_engines();
  if (parts_.owns_link) parts_.link->goodbye(longest_goodbye);
}

}  // namespace unisono::coordination
