// The thread of a link: it moves bytes while no caller polls, sends heartbeats, and detects silent peers.
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>

#include <fmt/format.h>

#include "base/error_text.h"
#include "base/log.h"
#include "base/socket.h"
#include "transport/tcp/tcp_link.h"
#include "unisono/detail/switches.h"

namespace unisono::transport {
namespace {

using base::Clock;
using namespace std::chrono_literals;

constexpr std::chrono::milliseconds latest_suspicion = 5s;
constexpr std::chrono::milliseconds shortest_period = 50ms;
constexpr std::chrono::milliseconds caller_look_period = 10ms;  ///< while callers poll: the time until it is noticed that none does any more

constexpr int heartbeats_in_silence = 30;  ///< so many are lost before a peer counts as silent

std::chrono::milliseconds heartbeat_period() { return std::max(detail::silence_limit() / heartbeats_in_silence, shortest_period); }

double seconds(Clock::duration time) { return static_cast<double>(std::chrono::duration_cast<std::chrono::milliseconds>(time).count()) / 1000.0; }

int milliseconds_until(Clock::time_point time) {
  return static_cast<int>(std::max<std::int64_t>(0, std::chrono::ceil<std::chrono::milliseconds>(time - Clock::now()).count()));
}

}  // namespace

void TcpLink::stop_thread() noexcept {
  if (!thread_.joinable()) return;
  if (::getpid() != pid_) return;  // a child of fork has the object but not the thread
  stop_.store(true);
  ::eventfd_write(notifier_.get(), 1);
  thread_.join();
}

void TcpLink::run() {
  try {
    base::set_log_rank(fmt::format("rank {}", options_.rank));
    work();
  } catch (...) {
    fail();
  }
}

// An error on this side (no memory, an exception of a listener) ends the connections, so that all peers learn of it.
void TcpLink::fail() noexcept {
  try {
    const std::string what = base::what_of(std::current_exception());
    base::log(base::LogLevel::error, fmt::format("the connections of rank {} are given up: {}", options_.rank, what));
    {
      const std::lock_guard lock(mutex_);
      for (Peer* const peer : open_)
        note(peer->lose(PeerFailed::disconnected, fmt::format("the connection to {} was given up: {}", peer->name(), what)));
      open_.clear();
    }
    if (options_.notify) options_.notify();
  } catch (...) {  // NOLINT(bugprone-empty-catch): without memory even for that: a waiting caller reaches its deadline
  }
}

void TcpLink::work() {
  std::uint64_t seen = polls_.load();
  while (!stop_.load()) {
    bool stirred = false;
    Time next_tick;
    {
      const std::lock_guard lock(mutex_);
      pump_all();
      const Time now = Clock::now();
      if (now >= last_tick_ + heartbeat_period()) tick(now);
      next_tick = last_tick_ + heartbeat_period();
      stirred = std::exchange(shared_.stirred, false);
    }
    after(stirred);
    const std::uint64_t polls = polls_.load();
    if (sleeps_here_.load() || (std::exchange(seen, polls) != polls && !someone_sleeps())) {
      leave_to_callers(next_tick);
      seen = polls_.load();
      // The last caller may have gone to sleep since then, so this thread looks again before it waits for the sockets.
    } else {
      wait_for_sockets(next_tick);
    }
  }
}

void TcpLink::leave_to_callers(Time until) {
  hands_off_.store(true);
  std::uint64_t seen = polls_.load();
  while (!stop_.load() && hands_off_.load() && (sleeps_here_.load() || !someone_sleeps())) {
    pollfd entry{notifier_.get(), POLLIN, 0};
    ::poll(&entry, 1, static_cast<int>(caller_look_period.count()));
    const std::uint64_t polls = polls_.load();
    if ((std::exchange(seen, polls) == polls && !sleeps_here_.load()) || Clock::now() >= until) break;
  }
  hands_off_.store(false);
}

void TcpLink::wait_for_sockets(Time until) {
  prepare_to_sleep();
  after(true);
  epoll_event event{};
  if (::epoll_wait(epoll_.get(), &event, 1, milliseconds_until(until)) < 0 && errno != EINTR) {
    throw Error(fmt::format("epoll_wait: {}", base::error_text(errno)));
  }
  eventfd_t notified = 0;
  ::eventfd_read(notifier_.get(), &notified);
}

// Runs after all arrived bytes were read. If this side was late itself, the peers' silence is not counted for that time.
void TcpLink::tick(Time now) {
  const std::chrono::milliseconds limit = detail::silence_limit();
  const std::chrono::milliseconds period = heartbeat_period();
  const auto late = now - last_tick_ - period;
  last_tick_ = now;
  for (Peer* const peer : open_) {
    if (late > period) peer->forgive(late, now);
    peer->beat();
    watch(*peer);
    if (peer->has_left() || peer->said_goodbye()) continue;
    const auto silence = now - peer->heard();
    if (silence >= limit) {
      note(peer->lose(PeerFailed::silent, fmt::format("nothing has come from {} for {} s", peer->name(), seconds(limit))));
    } else if (silence >= std::min(latest_suspicion, limit / 2) && !std::exchange(peer->warned, true)) {
      base::warn(fmt::format("nothing has come from {} for {} s; it counts as failed after {} s", peer->name(), seconds(silence), seconds(limit)));
    }
  }
  std::erase_if(open_, [](const Peer* peer) { return !peer->is_open(); });
  if (demand_) tick_on_demand(now);
}

}  // namespace unisono::transport
