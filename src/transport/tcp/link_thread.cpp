#include "transport/tcp/link_thread.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "base/socket.h"
#include "base/log.h"
#include "unisono/error.h"

namespace unisono::transport {
namespace {

using base::Clock;

constexpr std::chrono::milliseconds caller_look_period(10);  ///< while callers poll: the time until it is noticed that none does any more

int milliseconds_until(Clock::time_point time) {
  return static_cast<int>(std::max<std::int64_t>(0, std::chrono::ceil<std::chrono::milliseconds>(time - Clock::now()).count()));
}

}  // namespace

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
