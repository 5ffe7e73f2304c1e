// How a TcpLink moves bytes and delivers notices, whichever thread does it, and its goodbye.
#include <poll.h>

#include <algorithm>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include "base/error_text.h"
#include "base/log.h"
#include "transport/tcp/tcp_link.h"

namespace unisono::transport {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t looks_per_poll = 16;
constexpr std::chrono::milliseconds delivery_look_period = 5ms;  ///< the arrival of acknowledgements wakes no thread

constexpr std::size_t most_kept = std::size_t{16} << 20;  ///< bytes of notices for groups without a listener

std::size_t size_of(const Notice& notice) { return notice.text.size() + sizeof(Notice); }

}  // namespace

bool TcpLink::take_changes() {
  SharedState& shared = connections_.shared();
  if (!shared.notices.empty()) has_notices_.store(true);
  return std::exchange(shared.changed, false);
}

void TcpLink::after(bool changed) {
  deliver_notices();
  if (!changed) return;
  if (options_.notify) options_.notify();
  if (thread_) thread_->wake_sleeper();
}

void TcpLink::poll() noexcept {
  if (!thread_) return;
  thread_->count_poll();
  bool changed = false;
  try {
    {
      const std::unique_lock lock(mutex_, std::try_to_lock);
      if (!lock) return;
      connections_.pump_all();
      changed = take_changes();
    }
    after(changed);
  } catch (...) {
    fail();
  }
}

void TcpLink::look(int rank) {
  // The other connections are read less often: bytes that wait to be written, notices, peers that are gone.
  if (rank < 0 || ++looks_ % looks_per_poll == 0) return poll();
  if (!thread_) return;
  thread_->count_poll();
  bool changed = false;
  {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return;
    connections_.pump(connected(rank), base::Clock::now());
    changed = take_changes();
  }
  after(changed);
}

void TcpLink::prepare_to_wait() {
  const std::lock_guard lock(mutex_);
  connections_.prepare_to_wait();
  if (!connections_.shared().notices.empty()) has_notices_.store(true);
}

bool TcpLink::sleep(const std::function<bool()>& is_over, std::chrono::nanoseconds at_most) {
  if (!thread_ || !thread_->sleep([this] { prepare_to_wait(); }, is_over, at_most)) return false;
  poll();
  return true;
}

TcpLink::Time TcpLink::step() {
  bool changed = false;
  Time next;
  {
    const std::lock_guard lock(mutex_);
    connections_.pump_all();
    const Time now = base::Clock::now();
    if (connections_.send_heartbeats(now) && demand_) demand_->tick(now);
    next = connections_.next_heartbeat();
    changed = take_changes();
  }
  after(changed);
  return next;
}

// Delivers notices from one thread at a time, which keeps their order. A second thread leaves them to the first, which looks again.
void TcpLink::deliver_notices() {
  while (has_notices_.load()) {
    const auto delivering = notices_.try_lock();
    if (!delivering) return;
    std::vector<Notice> notices;
    {
      const std::lock_guard lock(mutex_);
      notices.swap(connections_.shared().notices);
      has_notices_.store(false);
      ++deliveries_;
    }
    struct Delivered {
      TcpLink& link;
      ~Delivered() {
        const std::lock_guard lock(link.mutex_);
        --link.deliveries_;
      }
    } const delivered{*this};
    for (Notice& notice : notices) {
      if (notices_.deliver(notice)) continue;
      const std::lock_guard lock(mutex_);
      Peer* const peer = connections_.find(notice.peer);
      if (peer == nullptr || !peer->is_open()) continue;
      connections_.record(peer->lose(PeerFailed::disconnected, fmt::format("{} sends notices that nobody waits for", peer->name())));
      if (demand_) demand_->on_reports();
    }
  }
}

// An error on this side (no memory, an exception of a listener) ends the connections, so that all peers learn of it.
void TcpLink::fail() noexcept {
  try {
    const std::string what = base::what_of(std::current_exception());
    base::log(base::LogLevel::error, fmt::format("the connections of rank {} are given up: {}", options_.rank, what));
    {
      const std::lock_guard lock(mutex_);
      connections_.lose_all(what);
    }
    if (options_.notify) options_.notify();
  } catch (...) {  // NOLINT(bugprone-empty-catch): without memory even for that: a waiting caller reaches its deadline
  }
}

// Waits until `done` returns true, which is asked under the mutex, after everything that can be moved has been.
bool TcpLink::wait_until(const base::Deadline& deadline, const std::function<bool()>& done) {
  for (;;) {
    bool changed = false;
    bool enough = false;
    {
      const std::lock_guard lock(mutex_);
      connections_.pump_all();
      changed = take_changes();
      enough = done();
    }
    after(changed);
    if (enough || deadline.passed()) return enough;
    pollfd entry{connections_.epoll(), POLLIN, 0};
    ::poll(&entry, 1, deadline.poll_timeout(static_cast<int>(delivery_look_period.count())));
  }
}

void TcpLink::goodbye(std::chrono::milliseconds at_most) {
  if (!thread_ || !thread_->is_of_this_process()) return;
  const base::Deadline deadline(at_most);
  const auto all = [&](auto&& condition) {
    bool is_so = true;
    connections_.for_each([&](Peer& peer) { is_so = is_so && condition(peer); });
    return is_so;
  };
  {
    const std::lock_guard lock(mutex_);
    if (demand_) demand_->attach();
  }
  wait_until(deadline, [&] { return all([](Peer& peer) { return !peer.has_pending_sends(); }) && (!demand_ || demand_->has_told_all()); });
  {
    const std::lock_guard lock(mutex_);
    if (demand_) demand_->begin_goodbye();
    const std::string departure = demand_ ? demand_->own_departure() : std::string();
    connections_.for_each([&](Peer& peer) {
      peer.send_goodbye(departure);
      connections_.watch(peer);
    });
  }
  wait_until(deadline, [&] { return all([](Peer& peer) { return peer.has_delivered(); }); });
}

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
