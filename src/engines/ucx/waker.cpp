#include "engines/ucx/waker.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

namespace unisono::engines::ucx {
namespace {

constexpr auto look_period = std::chrono::milliseconds(1);

void control(int events, int action, int descriptor, std::uint32_t flags) {
  epoll_event event{};
  event.events = flags;
  event.data.fd = descriptor;
  if (::epoll_ctl(events, action, descriptor, &event) != 0) throw std::system_error(errno, std::generic_category(), "epoll_ctl");
}

}  // namespace

Waker::~Waker() {
  // A child of fork has the descriptor of its parent's thread.
  if (!thread_.joinable() || process_ != ::getpid()) return;
  stop_.store(true);
  wake();
  thread_.join();
}

void Waker::start() {
  if (thread_.joinable()) return;
  events_ = base::FileDescriptor(::epoll_create1(EPOLL_CLOEXEC));
  wake_up_ = base::FileDescriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!events_.valid() || !wake_up_.valid()) throw std::system_error(errno, std::generic_category(), "epoll_create1, eventfd");
  control(events_.get(), EPOLL_CTL_ADD, wake_up_.get(), EPOLLIN);
  process_ = ::getpid();
  thread_ = base::Thread("the events of UCX", [this] { loop(); });
}

void Waker::wake() const noexcept { ::eventfd_write(wake_up_.get(), 1); }

void Waker::add(int descriptor, LookedAfter looked_after) {
  const std::lock_guard lock(mutex_);
  start();
  control(events_.get(), EPOLL_CTL_ADD, descriptor, EPOLLONESHOT);  // disarmed
  workers_.emplace(descriptor, std::move(looked_after));
}

// A waiter that is not woken looks again by itself after a while, so an error here costs time alone.
void Waker::arm(int descriptor) noexcept {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLONESHOT;
  event.data.fd = descriptor;
  ::epoll_ctl(events_.get(), EPOLL_CTL_MOD, descriptor, &event);
}

void Waker::remove(int descriptor) noexcept {
  const std::lock_guard lock(mutex_);
  if (workers_.erase(descriptor) != 0) ::epoll_ctl(events_.get(), EPOLL_CTL_DEL, descriptor, nullptr);
}

void Waker::loop() {
  constexpr int most = 16;
  std::array<epoll_event, most> happened{};
  while (!stop_.load()) {
    const int count = ::epoll_wait(events_.get(), happened.data(), most, is_tending_.load() ? static_cast<int>(look_period.count()) : -1);
    if (count < 0 && errno != EINTR) throw std::system_error(errno, std::generic_category(), "epoll_wait");
    const std::lock_guard lock(mutex_);
    for (int i = 0; i < count; ++i) {
      const int descriptor = happened[static_cast<std::size_t>(i)].data.fd;
      if (eventfd_t number = 0; descriptor == wake_up_.get()) ::eventfd_read(descriptor, &number);
      else if (const auto found = workers_.find(descriptor); found != workers_.end() && found->second.notify) found->second.notify();
    }
    if (is_tending_.load() && base::Clock::now() >= next_look_) tend();
  }
}

void Waker::tend() {
  bool is_left = false;
  for (const auto& [descriptor, looked_after] : workers_) is_left = looked_after.tend() || is_left;
  next_look_ = base::Clock::now() + look_period;
  if (is_left) return;
  is_tending_.store(false);
  // A send that came in between has seen that the thread was awake.
  for (const auto& [descriptor, looked_after] : workers_) {
    if (looked_after.has_sent()) is_tending_.store(true);
  }
}

}  // namespace unisono::engines::ucx
