#include "store/listeners.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "base/process.h"
#include "base/socket.h"
#include "unisono/error.h"

namespace unisono::store {
namespace {

using base::Clock;

constexpr std::chrono::milliseconds pause_without_means(100);  ///< until descriptors or memory are tried for again
constexpr int most_accepts_in_turn = 64;

}  // namespace

void Listeners::add(Id id, base::FileDescriptor listening) {
  base::set_close_on_exec(listening.get());
  base::set_non_blocking(listening.get());
  Listener listener{std::move(listening)};
  listener.local = base::local_address(listener.fd.get()).family() == AF_UNIX;
  epoll_event event{EPOLLIN, {.u64 = id}};
  if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, listener.fd.get(), &event) != 0) {
    throw InvalidArgument(fmt::format("a store cannot serve this descriptor: {}", base::error_text(errno)));
  }
  listeners_.emplace(id, std::move(listener));
}

void Listeners::watch(Id id, const Listener& listener) const {
  epoll_event event{listener.paused ? 0U : static_cast<std::uint32_t>(EPOLLIN), {.u64 = id}};
  ::epoll_ctl(epoll_, EPOLL_CTL_MOD, listener.fd.get(), &event);
}

void Listeners::pause(Id id, Listener& listener, std::chrono::milliseconds time) {
  listener.paused = true;
  listener.resume = Clock::now() + time;
  watch(id, listener);
}

void Listeners::resume(Time now) {
  for (auto& [id, listener] : listeners_) {
    if (!listener.paused || listener.resume > now) continue;
    listener.paused = false;
    watch(id, listener);
  }
}

Listeners::Time Listeners::next_resume() const {
  Time next = Time::max();
  for (const auto& [id, listener] : listeners_) {
    if (listener.paused) next = std::min(next, listener.resume);
  }
  return next;
}

bool Listeners::accept(Id id) {
  const auto found = listeners_.find(id);
  if (found == listeners_.end()) return false;
  try {
    accept_all(id, found->second);
  } catch (const std::exception& error) {  // that connection is closed; later ones may succeed
    base::warn(fmt::format("the store could not take a connection: {}", error.what()));
    pause(id, found->second, pause_without_means);
  }
  return true;
}

bool Listeners::admits_local(int fd) const {
  if (!base::peer_is_same_user(fd)) return false;
  return options_.family_of == 0 || base::is_descendant(base::peer_process(fd), options_.family_of);
}

void Listeners::accept_all(Id id, Listener& listener) {
  for (int i = 0; i < most_accepts_in_turn; ++i) {
    if (!listener.local) {
      if (const auto time = owner_.make_room(); time.count() > 0) return pause(id, listener, time);
    }
    base::FileDescriptor fd(::accept4(listener.fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) {
      const int error = errno;
      if (error == EINTR || error == ECONNABORTED) continue;
      if (error != EAGAIN) {
        base::log(base::LogLevel::error, fmt::format("the store cannot take another connection: {}", base::error_text(error)));
        pause(id, listener, pause_without_means);
      }
      return;
    }
    fd.keep_from_children();
    if (!listener.local) add_remote(std::move(fd));
    else if (admits_local(fd.get())) owner_.add_local(std::move(fd));
  }
}

void Listeners::add_remote(base::FileDescriptor fd) {
  base::set_no_delay(fd.get());
  base::end_when_silent(fd.get(), options_.silence);
  try {
    std::string source = base::peer_address(fd.get()).host();
    std::string why;
    auto tls = options_.tls ? options_.tls->open(fd.get(), base::TlsSide::accepting, why) : nullptr;
    if (options_.tls && !tls) throw std::runtime_error(why);
    owner_.add(std::move(fd), std::move(source), std::move(tls));
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): the client has closed it already
  }
}

}  // namespace unisono::store
