#include "coordination/watchdog.h"

#include <unistd.h>

#include <fmt/format.h>

#include "base/error_text.h"
#include "base/log.h"
#include "coordination/failure_detector.h"

namespace unisono::coordination {
namespace {

// A call that lasts is seen twice within at most twice this time. Waking up that often costs hardly any time.
constexpr std::chrono::milliseconds watch_period{50};

}  // namespace

Watchdog::Watchdog(Look look, std::function<void(const Failure&)> end)
    : look_(std::move(look)), end_(std::move(end)), process_(::getpid()), thread_("the watch over an engine's calls", [this] { loop(); }) {}

Watchdog::~Watchdog() {
  if (::getpid() != process_) return;  // a child of fork has no such thread
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

Watchdog::Guard::Guard(Watchdog& watchdog, const CollectiveCall& call, std::chrono::milliseconds timeout) : watchdog_(watchdog) {
  watchdog_.operation_.store(name_of(call).data(), std::memory_order_relaxed);
  watchdog_.sequence_.store(call.sequence, std::memory_order_relaxed);
  watchdog_.timeout_.store(timeout.count(), std::memory_order_relaxed);
  watchdog_.inside_.store(++watchdog_.calls_, std::memory_order_release);
}

void Watchdog::loop() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, watch_period, [&] { return stop_; })) {
    lock.unlock();
    try {
      check();
    } catch (...) {
      give_up(base::message_of(std::current_exception()));
    }
    lock.lock();
  }
}

void Watchdog::give_up(const std::string& why) noexcept {
  over_ = true;
  try {
    base::warn(why);
    end_({.cause = PeerFailed::Cause::aborted, .culprit = -1, .message = why});
  } catch (const std::exception& error) {
    base::log(base::LogLevel::error, error.what());
  }
}

void Watchdog::check() {
  const std::uint64_t inside = inside_.load(std::memory_order_acquire);
  if (over_ || inside == 0) return;
  const auto now = base::Clock::now();
  if (inside != seen_) {
    seen_ = inside;
    since_ = now;
    return;
  }
  const std::chrono::milliseconds timeout(timeout_.load(std::memory_order_relaxed));
  auto failure = look_(patience_of_call(now - since_, timeout));
  if (!failure && now - since_ >= timeout) {
    failure = Failure{.kind = Failure::Kind::timeout,
                      .cause = {},
                      .culprit = -1,
                      .message = fmt::format("{} #{} was not done within {} ms, though all ranks had called it", operation_.load(), sequence_.load(),
                                             timeout.count())};
  }
  if (!failure || inside_.load(std::memory_order_acquire) != inside) return;
  over_ = true;
  end_(*failure);
}

}  // namespace unisono::coordination
