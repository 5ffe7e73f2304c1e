#include "coordination/coordination.h"

#include <algorithm>
#include <utility>

#include "base/hash.h"
#include "coordination/agreement.h"
#include "coordination/failure_text.h"

namespace unisono::coordination {

Coordination::Coordination(CoordinationParts parts) : parts_(std::move(parts)), topology_(parts_.topology), group_id_(base::stable_hash(parts_.key)) {
  if (is_one_host()) return;
  if (!parts_.whereabouts) parts_.whereabouts = std::make_shared<Whereabouts>();
  for (int r = 0; r < size(); ++r) {
    if (!topology_.here(r)) others_.push_back(global(r));
  }
  notices_ = std::make_unique<Notices>(parts_.link, group_id_, parts_.global_ranks);
  std::vector<int> peers;
  for (int r = 0; r < size(); ++r) {
    if (r != rank() && !parts_.link->address_of(global(r)).empty()) peers.push_back(r);
  }
  early_mail_ = std::make_unique<EarlyMail>(
      ExchangeRoute{.mail = parts_.link.get(), .group = base::stable_hash(parts_.key + " early"), .global_ranks = &parts_.global_ranks},
      std::move(peers));
  for (const NoticeKind kind : {NoticeKind::ballot, NoticeKind::waiting, NoticeKind::left_out}) {
    notices_->handle(kind, [this](int from, std::string_view notice) { ballots_.take(topology_.host_of(from), notice); });
  }
  notices_->handle(NoticeKind::left, [this](int from, std::string_view notice) {
    if (topology_.here(from)) return;  // its process is watched
    const std::lock_guard lock(mutex_);
    base::ByteReader content = Notices::content_of(notice);
    const auto agreements = content.get<std::uint64_t>();
    const auto how = static_cast<Leaving>(std::min(content.get<std::uint8_t>(), static_cast<std::uint8_t>(last_leaving)));
    left_.emplace(from, Left{.agreements = agreements, .how = how});
  });
  notices_->handle(NoticeKind::whereabouts,
                   [this](int from, std::string_view notice) { parts_.whereabouts->take(global(from), Notices::content_of(notice).text()); });
  notices_->handle(NoticeKind::wait_chain,
                   [this](int, std::string_view notice) { parts_.whereabouts->chains().take(Notices::content_of(notice).rest()); });
  notices_->handle(NoticeKind::failure, [this](int, std::string_view notice) {
    const std::lock_guard lock(mutex_);
    if (announced_) return;
    announced_ = decode_failure(notice, size());
    if (!announced_) return;
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
  parts_.link->end(early_mail_->group());
}

base::Notifier* Coordination::notifier() {
  if (parts_.host.engine) return &parts_.host.engine->segment().notifier(topology_.local);
  return parts_.notifier.get();
}

base::Neighbours* Coordination::neighbours() {
  return parts_.host.engine && !parts_.host.engine->is_crowded() ? &parts_.host.engine->neighbours() : nullptr;
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
      .tell_others = [this](const std::string& notice) { tell_others(notice, transport::Link::Announcement::call); },
      // The number keeps these messages apart from other traffic of the group, and the group's failure ends it.
      .route = {.mail = &link, .group = ~group_id_, .global_ranks = &parts_.global_ranks},
      .memory = &exchange_memory_,
      .poll = [this] { poll(); },
      .sleep = [this, &link](const std::function<bool()>& is_over,
                             std::chrono::nanoseconds at_most) { return link.sleep([&] { return is_over() || early_mail_->fetch(); }, at_most); },
      .notifier = notifier(),
      .is_over = [this] { return failure().has_value(); },
      .has_left_after =
          [this](int r, std::uint64_t number) {
            const std::lock_guard lock(mutex_);
            const auto left = left_.find(r);
            return left != left_.end() && left->second.agreements >= number;
          },
      .gone = [this] { return gone(); },
      .all_but_told = [this] { agreed_.store(true, std::memory_order_release); }});
}

std::unique_ptr<Task> Coordination::start_agreement(const CollectiveCall& call, Carried* carried) {
  if (is_one_host()) return parts_.host.engine->start_agreement(call);
  if (!agreement_parts_) {
    agreement_parts_ = parts_of_agreement();
    exchange_memory_.is_crowded = is_crowded();
  }
  ++agreements_;
  if (std::exchange(exchange_memory_.has_differed, false)) early_mail_->drop_before(agreements_);
  return coordination::start_agreement(*agreement_parts_, agreements_, call, carried);
}

bool Coordination::agree(const CollectiveCall& call, Waiter& waiter, bool flag) { return parts_.host.engine->agree(call, waiter, flag); }

void Coordination::tell_others(std::string_view notice, transport::Link::Announcement what) { notices_->announce(others_, notice, what); }

void Coordination::leave(Leaving how, const std::function<void()>& end_engines, std::chrono::milliseconds at_most) {
  if (parts_.host.peers) parts_.host.peers->leave(how);
  using enum transport::Link::Announcement;
  if (!is_one_host()) {
    tell_others(Notices::of_kind(NoticeKind::left).put(agreements_).put(static_cast<std::uint8_t>(how)).bytes(),
                parts_.owns_link ? goodbye : leaving);
  }
  end_engines();
  if (parts_.owns_link) parts_.link->goodbye(at_most);
}

}  // namespace unisono::coordination
