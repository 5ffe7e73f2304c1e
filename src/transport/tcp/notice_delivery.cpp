#include "transport/tcp/notice_delivery.h"

#include <utility>

namespace unisono::transport {
namespace {

constexpr std::size_t most_kept = std::size_t{16} << 20;  ///< bytes of notices for groups without a listener

std::size_t size_of(const Notice& notice) { return notice.text.size() + sizeof(Notice); }

}  // namespace

void NoticeDelivery::listen(std::uint64_t group, Link::Listener listener) {
  const std::lock_guard lock(mutex_);
  if (!listener) {
    listeners_.erase(group);
    return;
  }
  listeners_[group] = std::make_shared<Link::Listener>(std::move(listener));
  const auto kept = kept_.find(group);
  if (kept == kept_.end()) return;
  std::vector<Notice> notices = std::move(kept->second);
  kept_.erase(kept);
  for (Notice& notice : notices) {
    kept_bytes_ -= size_of(notice);
    deliver(notice);
  }
}

void NoticeDelivery::end_group(std::uint64_t group) {
  const std::lock_guard lock(mutex_);
  if (const auto kept = kept_.find(group); kept != kept_.end()) {
    for (const Notice& notice : kept->second) kept_bytes_ -= size_of(notice);
    kept_.erase(kept);
  }
  ended_.insert(group);
}

bool NoticeDelivery::deliver(Notice& notice) {
  if (const auto found = listeners_.find(notice.group); found != listeners_.end()) {
    const std::shared_ptr<Link::Listener> listener = found->second;  // it may end itself
    (*listener)(notice.peer, notice.text);
    return true;
  }
  if (ended_.contains(notice.group)) return true;
  if (kept_bytes_ + size_of(notice) > most_kept) return false;
  kept_bytes_ += size_of(notice);
  kept_[notice.group].push_back(std::move(notice));
  return true;
}

}  // namespace unisono::transport
