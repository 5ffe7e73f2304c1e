// How a TcpLink moves bytes and delivers notices, whichever thread does it, and its goodbye.
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include "base/error_text.h"
#include "base/log.h"
#include "base/socket.h"
#include "transport/tcp/tcp_link.h"
#include "unisono/error.h"

namespace unisono::transport {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t looks_per_poll = 16;
constexpr std::chrono::milliseconds delivery_look_period = 5ms;  ///< the arrival of acknowledgements wakes no thread

constexpr std::size_t most_kept = std::size_t{16} << 20;  ///< bytes of notices for groups without a listener

std::size_t size_of(const Notice& notice) { return notice.text.size() + sizeof(Notice); }

using base::Clock;

constexpr std::chrono::milliseconds caller_look_period(10);  ///< while callers poll: the time until it is noticed that none does any more

int milliseconds_until(Clock::time_point time) {
  return static_cast<int>(std::max<std::int64_t>(0, std::chrono::ceil<std::chrono::milliseconds>(time - Clock::now()).count()));
}

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
    (*listener)(notice.peer, std::move(notice.text));
    return true;
  }
  if (ended_.contains(notice.group)) return true;
  if (kept_bytes_ + size_of(notice) > most_kept) return false;
  kept_bytes_ += size_of(notice);
  kept_[notice.group].push_back(std::move(notice));
  return true;
}

LinkThread::LinkThread(int epoll, std::atomic<bool>& callers_poll, Owner owner)
    : epoll_(epoll),
      callers_poll_(callers_poll),
      owner_(std::move(owner)),
      pid_(::getpid()),
      notifier_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      wakeup_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void LinkThread::stop() noexcept {
  if (!thread_.joinable() || !is_of_this_process()) return;
  stop_.store(true);
  ::eventfd_write(notifier_.get(), 1);
  thread_.join();
}

bool LinkThread::is_of_this_process() const { return ::getpid() == pid_; }

void LinkThread::start() {
  thread_ = base::Thread("the connections", [this] { run(); });
}

void LinkThread::count_poll() {
  if (!has_waiter()) {
    polls_.store(polls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  } else if (!sleeps_here_.load() && callers_poll_.exchange(false)) {  // a caller sleeps elsewhere
    ::eventfd_write(notifier_.get(), 1);
  }
}

bool LinkThread::sleep(const std::function<void()>& prepare, const std::function<bool()>& is_over, std::chrono::nanoseconds at_most) {
  const std::unique_lock sleeper(sleeper_, std::try_to_lock);
  if (!sleeper) return false;
  prepare();
  sleeps_here_.store(true);
  if (!is_over()) {
    epoll_event event{};
    const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(at_most).count();
    ::epoll_wait(epoll_, &event, 1, static_cast<int>(milliseconds));
  }
  sleeps_here_.store(false);
  eventfd_t wakeups = 0;
  ::eventfd_read(wakeup_.get(), &wakeups);
  return true;
}

void LinkThread::wake_sleeper() {
  if (sleeps_here_.load()) ::eventfd_write(wakeup_.get(), 1);
}

void LinkThread::run() {
  try {
    base::set_log_rank(owner_.name);
    work();
  } catch (...) {
    owner_.failed();
  }
}

void LinkThread::work() {
  std::uint64_t seen = polls_.load();
  while (!stop_.load()) {
    const Time next_step = owner_.step();
    const std::uint64_t polls = polls_.load();
    if (sleeps_here_.load() || (std::exchange(seen, polls) != polls && !has_waiter())) {
      leave_to_callers(next_step);
      seen = polls_.load();
      // The last caller may have gone to sleep since then, so this thread looks again before it waits for the sockets.
    } else {
      wait_for_sockets(next_step);
    }
  }
}

void LinkThread::leave_to_callers(Time until) {
  callers_poll_.store(true);
  std::uint64_t seen = polls_.load();
  while (!stop_.load() && callers_poll_.load() && (sleeps_here_.load() || !has_waiter())) {
    pollfd entry{notifier_.get(), POLLIN, 0};
    ::poll(&entry, 1, static_cast<int>(caller_look_period.count()));
    const std::uint64_t polls = polls_.load();
    if ((std::exchange(seen, polls) == polls && !sleeps_here_.load()) || Clock::now() >= until) break;
  }
  callers_poll_.store(false);
}

void LinkThread::wait_for_sockets(Time until) {
  owner_.before_waiting();
  epoll_event event{};
  if (::epoll_wait(epoll_, &event, 1, milliseconds_until(until)) < 0 && errno != EINTR) {
    throw Error(fmt::format("epoll_wait: {}", base::error_text(errno)));
  }
  eventfd_t notified = 0;
  ::eventfd_read(notifier_.get(), &notified);
}

}  // namespace unisono::transport
