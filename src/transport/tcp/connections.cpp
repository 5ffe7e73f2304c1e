#include "transport/tcp/connections.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "base/error_text.h"
#include "base/log.h"
#include "unisono/detail/switches.h"

namespace unisono::transport {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t few_peers = 2;  ///< up to so many are read from without asking epoll first
constexpr std::chrono::milliseconds latest_suspicion = 5s;
constexpr std::chrono::milliseconds shortest_period = 50ms;
constexpr int heartbeats_in_silence = 30;  ///< so many are lost before a peer counts as silent

std::chrono::milliseconds heartbeat_period() { return std::max(detail::silence_limit() / heartbeats_in_silence, shortest_period); }

double seconds(base::Clock::duration time) {
  return static_cast<double>(std::chrono::duration_cast<std::chrono::milliseconds>(time).count()) / 1000.0;
}

void add_to(int epoll, int fd, std::size_t which) {
  epoll_event event{EPOLLIN, {.u32 = static_cast<std::uint32_t>(which)}};
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) throw Error(fmt::format("epoll: {}", base::error_text(errno)));
}

}  // namespace

void Connections::begin(ConnectionObserver* observer) {
  observer_ = observer;
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  shared_.epoll = epoll_.get();
}

void Connections::wake_by(int fd) { add_to(epoll_.get(), fd, peers_.size()); }

Peer& Connections::add(int rank, const std::string& address) {
  auto& peer = peers_.at(static_cast<std::size_t>(rank));
  peer = std::make_unique<Peer>(rank, address, shared_);
  return *peer;
}

void Connections::open(Peer& peer, Established connection) {
  peer.connect(std::move(connection));
  peer.watched_events = EPOLLIN;
  add_to(epoll_.get(), peer.connection().fd(), static_cast<std::size_t>(peer.rank()));
  open_.push_back(&peer);
  for (Peer* const each : open_) arm(*each);  // a few peers are not watched, more of them are
}

std::size_t Connections::open_count() const {
  return static_cast<std::size_t>(std::ranges::count_if(open_, [](const Peer* peer) { return peer->is_open(); }));
}

void Connections::forget_closed() {
  std::erase_if(open_, [](const Peer* peer) { return !peer->is_open(); });
}

// ---- transfer of bytes ----------------------------------------------------------------------------------------

void Connections::watch(Peer& peer) {
  if (callers_poll_.load(std::memory_order_relaxed) && open_.size() <= few_peers) return;  // no thread waits for the sockets
  arm(peer);
}

void Connections::arm(Peer& peer) {
  if (!peer.is_open()) return;
  const std::uint32_t events = EPOLLIN | (peer.connection().wants_to_write() ? EPOLLOUT : 0U);
  if (events == peer.watched_events) return;
  peer.watched_events = events;
  epoll_event event{events, {.u32 = static_cast<std::uint32_t>(peer.rank())}};
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, peer.connection().fd(), &event);
}

void Connections::pump(Peer& peer, Time now) {
  auto loss = peer.pump(now);
  const bool is_lost = loss.has_value();
  if (is_lost) record(std::move(*loss));
  watch(peer);
  if (!is_lost && shared_.reports.empty() && shared_.left.empty()) return;
  if (observer_ != nullptr) return observer_->on_reports();
  shared_.left.clear();
  if (std::exchange(shared_.reports, {}).empty() || !peer.is_open()) return;
  record(peer.lose(PeerFailed::disconnected, fmt::format("{} tells of other ranks, which tell of themselves", peer.name())));
}

void Connections::pump_all() {
  const auto now = base::Clock::now();
  if (open_.size() <= few_peers) {
    for (Peer* const peer : open_) pump(*peer, now);
  } else {
    std::array<epoll_event, 64> events{};
    const int n = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
    for (int i = 0; i < n; ++i) {
      if (Peer* const peer = find(static_cast<int>(events[static_cast<std::size_t>(i)].data.u32))) pump(*peer, now);
    }
    for (Peer* const peer : open_) {  // no event tells of bytes that have been read already
      if (peer->connection().has_unread()) pump(*peer, now);
    }
  }
  forget_closed();
  turns_.fetch_add(1, std::memory_order_relaxed);
}

// No event tells of bytes that have been read already, or of a connection that has become writable without being watched for that.
void Connections::prepare_to_wait() {
  for (Peer* const peer : open_) {
    while (peer->connection().has_unread()) pump(*peer, base::Clock::now());
    arm(*peer);
  }
}

// ---- peers that are lost --------------------------------------------------------------------------------------

Connections::Time Connections::next_heartbeat() const { return last_heartbeat_ + heartbeat_period(); }

// If this side was late itself, the peers' silence is not counted for that time.
bool Connections::send_heartbeats(Time now) {
  if (now < next_heartbeat()) return false;
  const std::chrono::milliseconds limit = detail::silence_limit();
  const std::chrono::milliseconds period = heartbeat_period();
  const auto late = now - last_heartbeat_ - period;
  last_heartbeat_ = now;
  for (Peer* const peer : open_) {
    if (late > period) peer->exclude_from_silence(late, now);
    peer->send_heartbeat();
    watch(*peer);
    if (peer->has_left() || peer->said_goodbye()) continue;
    const auto silence = now - peer->last_received();
    if (silence >= limit) {
      record(peer->lose(PeerFailed::silent, fmt::format("nothing has come from {} for {} s", peer->name(), seconds(limit))));
    } else if (silence >= std::min(latest_suspicion, limit / 2) && !std::exchange(peer->warned, true)) {
      base::warn(fmt::format("nothing has come from {} for {} s; it counts as failed after {} s", peer->name(), seconds(silence), seconds(limit)));
    }
  }
  forget_closed();
  return true;
}

void Connections::record(Link::Loss loss) {
  if (observer_ != nullptr) observer_->on_loss(loss);
  record_reported(std::move(loss));
}

void Connections::record_reported(Link::Loss loss) {
  if (!loss_) loss_ = std::move(loss);
  has_loss_.store(true, std::memory_order_release);
  shared_.changed = true;
}

void Connections::lose_all(const std::string& why) {
  for (Peer* const peer : open_) {
    record(peer->lose(PeerFailed::disconnected, fmt::format("the connection to {} was given up: {}", peer->name(), why)));
  }
  open_.clear();
}

// It is measured at the last heartbeat, which excludes the time for which this side did not read.
std::chrono::milliseconds Connections::silence_of(int rank) const {
  const Peer* const peer = find(rank);
  if (peer == nullptr || !peer->is_open() || peer->has_left() || peer->said_goodbye()) return 0ms;
  return std::max(0ms, std::chrono::duration_cast<std::chrono::milliseconds>(last_heartbeat_ - peer->last_received()));
}

}  // namespace unisono::transport
