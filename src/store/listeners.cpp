// The server's thread: accepts connections and limits those that have not authenticated.
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>

#include <fmt/format.h>

#include "base/log.h"
#include "base/process.h"
#include "base/socket.h"
#include "store/loop.h"
#include "unisono/error.h"

namespace unisono::store {

using base::Clock;
using namespace std::chrono_literals;

namespace {

// A handshake takes microseconds. A younger connection may belong to one of many ranks that connect at once; an older one makes room for others.
constexpr auto grace_of_pending = 50ms;
constexpr auto pause_without_means = 100ms;  ///< until descriptors or memory are tried for again
constexpr int most_accepts_in_turn = 64;

// Warnings about rejected connections: a line for each source in this time, so that a scanner does not fill the job's log.
constexpr auto quiet_time = 10s;
constexpr std::size_t most_sources_remembered = 64;

}  // namespace

void StoreServer::Loop::pause(Listener& listener, Id id, std::chrono::milliseconds time) {
  listener.paused = true;
  listener.resume = Clock::now() + time;
  epoll_event event{0, {.u64 = id}};
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, listener.fd.get(), &event);
}

// Closes the oldest connection that has not authenticated, so that strangers cannot keep the ranks out. A connection that is still young may be
// authenticating, or reading why it was refused: then the listener pauses instead, and new connections stay in the kernel's queue for that time.
bool StoreServer::Loop::make_room(Listener& listener, Id id) {
  std::size_t pending = 0;
  std::optional<Id> oldest;
  for (const auto& [session_id, session] : sessions_) {
    if (!session.takes_place()) continue;
    if (!oldest) oldest = session_id;
    ++pending;
  }
  if (pending < options_.most_pending) return true;
  const auto age = Clock::now() - sessions_.at(*oldest).since;
  if (age < grace_of_pending) {
    pause(listener, id, std::chrono::ceil<std::chrono::milliseconds>(grace_of_pending - age));
    return false;
  }
  if (sessions_.at(*oldest).pending()) log_rejected(sessions_.at(*oldest), "it did not authenticate, and others were waiting");
  close(*oldest);
  return true;
}

void StoreServer::Loop::accept_from(Listener& listener, Id id) {
  try {
    accept_all(listener, id);
  } catch (const std::exception& error) {  // that connection is closed; later ones may succeed
    base::warn(fmt::format("the store could not take a connection: {}", error.what()));
    pause(listener, id, pause_without_means);
  }
}

bool StoreServer::Loop::admits_local(int fd) const {
  if (!base::peer_is_same_user(fd)) return false;
  return options_.family_of == 0 || base::is_descendant(base::peer_process(fd), options_.family_of);
}

void StoreServer::Loop::accept_all(Listener& listener, Id id) {
  for (int i = 0; i < most_accepts_in_turn; ++i) {
    if (!listener.local && !make_room(listener, id)) return;
    base::FileDescriptor fd(::accept4(listener.fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) {
      const int error = errno;
      if (error == EINTR || error == ECONNABORTED) continue;
      if (error != EAGAIN) {
        base::log(base::LogLevel::error, fmt::format("the store cannot take another connection: {}", base::error_text(error)));
        pause(listener, id, pause_without_means);
      }
      return;
    }
    fd.keep_from_children();
    if (listener.local) {
      if (admits_local(fd.get())) add_session(std::move(fd), "a local connection", true);
      continue;
    }
    base::set_no_delay(fd.get());
    base::end_when_silent(fd.get(), options_.silence);
    try {
      std::string source = base::peer_address(fd.get()).host();
      std::string why;
      auto tls = options_.tls ? options_.tls->open(fd.get(), base::TlsSide::accepting, why) : nullptr;
      if (options_.tls && !tls) throw std::runtime_error(why);
      Session& session = add_session(std::move(fd), std::move(source), false);
      session.expires = Clock::now() + options_.handshake_timeout;
      if (tls) session.stage = Session::Stage::encryption;
      session.tls = std::move(tls);
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): the client has closed it already
    }
  }
}

Session& StoreServer::Loop::add_session(base::FileDescriptor fd, std::string source, bool trusted) {
  const Id id = next_id_++;
  Session& session = sessions_[id];
  session.fd = std::move(fd);
  session.source = std::move(source);
  session.trusted = trusted;
  session.since = Clock::now();
  session.interest = EPOLLIN;
  epoll_event event{EPOLLIN, {.u64 = id}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, session.fd.get(), &event) != 0) {
    const int error = errno;
    sessions_.erase(id);
    throw Error(fmt::format("a connection cannot be served: {}", base::error_text(error)));
  }
  return session;
}

void StoreServer::Loop::log_rejected(const Session& session, std::string_view what) {
  const Time now = Clock::now();
  if (rejected_.size() >= most_sources_remembered) std::erase_if(rejected_, [&](const auto& entry) { return now - entry.second > quiet_time; });
  if (rejected_.size() >= most_sources_remembered) return;
  const auto [entry, fresh] = rejected_.emplace(session.source, now);
  if (!fresh && now - entry->second < quiet_time) return;
  entry->second = now;
  base::warn(fmt::format("the store closed a connection from {}: {}", session.source, what));
}

}  // namespace unisono::store
