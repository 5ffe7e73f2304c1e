// What a TcpLink tells of its peers, and its goodbye.
#include <poll.h>
#include <unistd.h>

#include <algorithm>

#include "transport/tcp/tcp_link.h"

namespace unisono::transport {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds delivery_look_period = 5ms;  ///< the arrival of acknowledgements wakes no thread

}  // namespace

std::optional<Link::Loss> TcpLink::lost() const {
  if (!any_loss_.load(std::memory_order_acquire)) return std::nullopt;
  const std::lock_guard lock(mutex_);
  return loss_;
}

bool TcpLink::is_gone(int rank) const {
  const std::lock_guard lock(mutex_);
  const Peer* const peer = find(rank);
  return shows_departure(rank) || (peer == nullptr ? has_heard_of(rank, Heard::lost) : peer->loss().has_value());
}

bool TcpLink::has_left(int rank) const {
  const std::lock_guard lock(mutex_);
  return shows_departure(rank);
}

// It is measured at the last heartbeat, which forgives the peers the time for which this side did not listen.
std::chrono::milliseconds TcpLink::silence_of(int rank) const {
  const std::lock_guard lock(mutex_);
  const Peer* const peer = find(rank);
  if (peer == nullptr || !peer->is_open() || peer->has_left() || peer->said_goodbye()) return 0ms;
  return std::max(0ms, std::chrono::duration_cast<std::chrono::milliseconds>(last_tick_ - peer->heard()));
}

// A rank that leaves says what it left behind in the notices before its goodbye. Who sees the one without the others takes it for missing.
bool TcpLink::shows_departure(int rank) const {
  if (rank < 0 || static_cast<std::size_t>(rank) >= departures_shown_.size()) return false;
  if (departures_shown_[static_cast<std::size_t>(rank)]) return true;
  const Peer* const peer = find(rank);
  const bool has_left = peer == nullptr ? has_heard_of(rank, Heard::left) : peer->has_left();
  if (!has_left || deliveries_ > 0 || !shared_.notices.empty()) return false;
  departures_shown_[static_cast<std::size_t>(rank)] = true;
  return true;
}

std::string TcpLink::address_of(int rank) const {
  const std::lock_guard lock(mutex_);
  if (!is_peer(options_, rank)) return {};
  const Peer* const peer = find(rank);
  return peer == nullptr ? address_known_of(rank) : peer->address();
}

std::size_t TcpLink::connections() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(std::ranges::count_if(open_, [](const Peer* peer) { return peer->is_open(); }));
}

// Waits until `done` returns true, which is asked under the mutex, after everything that can be moved has been.
bool TcpLink::wait_until(const base::Deadline& deadline, const std::function<bool()>& done) {
  for (;;) {
    bool stirred = false;
    bool enough = false;
    {
      const std::lock_guard lock(mutex_);
      pump_all();
      stirred = std::exchange(shared_.stirred, false);
      enough = done();
    }
    after(stirred);
    if (enough || deadline.passed()) return enough;
    pollfd entry{epoll_.get(), POLLIN, 0};
    ::poll(&entry, 1, deadline.poll_timeout(static_cast<int>(delivery_look_period.count())));
  }
}

void TcpLink::goodbye(std::chrono::milliseconds at_most) {
  if (!thread_.joinable() || ::getpid() != pid_) return;
  const base::Deadline deadline(at_most);
  const auto none = [&](auto&& condition) {
    return std::none_of(peers_.begin(), peers_.end(), [&](const auto& peer) { return peer && condition(*peer); });
  };
  {
    const std::lock_guard lock(mutex_);
    if (demand_) reattach();
  }
  wait_until(deadline, [&] { return none([](const Peer& peer) { return peer.owes(); }) && has_told_all(); });
  {
    const std::lock_guard lock(mutex_);
    if (demand_) demand_->said_goodbye = true;  // no more ranks are dialled; those that dial this one hear that it has left
    for (const auto& peer : peers_) {
      if (!peer) continue;
      say_farewell(*peer);
      watch(*peer);
    }
  }
  wait_until(deadline, [&] { return none([](Peer& peer) { return !peer.has_delivered(); }); });
}

}  // namespace unisono::transport
