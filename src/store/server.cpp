// The server's thread: waits, and receives and sends bytes. server_requests.cpp answers requests.
#include "store/server.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/socket.h"
#include "base/tls.h"
#include "unisono/error.h"

namespace unisono::store {

using base::Clock;
using base::Deadline;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t notifier_id = 0;  // in epoll; connections and listeners count from 1
constexpr int longest_wait_ms = 1 << 30;  // epoll_wait takes an int

// Limits of one turn, so that a busy client does not delay the others.
constexpr int most_reads_in_turn = 16;
constexpr std::size_t read_size = std::size_t{64} << 10, read_size_unauthenticated = 512;

// The last words to the clients may take so long; so many pieces of unread input are read at a close.
constexpr auto time_for_last_answers = 500ms;
constexpr int most_last_reads = 256;

// A handshake takes microseconds. A younger connection may belong to one of many ranks that connect at once; an older one makes room for others.
constexpr auto grace_of_pending = 50ms;

}  // namespace

StoreServer::StoreServer(ServerOptions options)
    : options_(std::move(options)),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      notifier_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      keys_(options_),
      handshake_(options_),
      listeners_(epoll_.get(), options_,
                 {.make_room = [this] { return make_room(); },
                  .add_local = [this](base::FileDescriptor fd) { add_session(std::move(fd), "a local connection", true); },
                  .add =
                      [this](base::FileDescriptor fd, std::string source, std::unique_ptr<base::TlsConnection> tls) {
                        Session& session = add_session(std::move(fd), std::move(source), false);
                        session.expires = Clock::now() + options_.handshake_timeout;
                        if (tls) session.stage = Session::Stage::encryption;
                        session.tls = std::move(tls);
                      }}),
      pid_(::getpid()) {
  epoll_event event{EPOLLIN, {.u64 = notifier_id}};
  if (!epoll_ || !notifier_ || ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, notifier_.get(), &event) != 0) {
    throw Error(fmt::format("a store server could not be set up: {}", base::error_text(errno)));
  }
  thread_ = base::Thread("the store server", [this] { run(); });
}

StoreServer::~StoreServer() {
  if (::getpid() != pid_) return;  // a child of fork has the object but not the thread
  std::unique_ptr<Forwarder> forwarder;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    forwarder = std::move(forwarder_);
  }
  forwarder.reset();
  ::eventfd_write(notifier_.get(), 1);
  thread_.join();
}

void StoreServer::listen(base::FileDescriptor listening) {
  const std::lock_guard lock(mutex_);
  listeners_.add(next_id_++, std::move(listening));
}

void StoreServer::adopt(base::FileDescriptor connected) {
  const std::lock_guard lock(mutex_);
  base::set_close_on_exec(connected.get());
  base::set_non_blocking(connected.get());
  add_session(std::move(connected), "a connection handed over", true);
}

std::optional<std::string> StoreServer::peek(std::string_view key) const {
  const std::lock_guard lock(mutex_);
  const std::string* value = keys_.find(key);
  return value == nullptr ? std::nullopt : std::optional(*value);
}

void StoreServer::set(std::string_view key, std::string_view value) {
  {
    const std::lock_guard lock(mutex_);
    keys_.set(key, value);
  }
  ::eventfd_write(notifier_.get(), 1);
}

void StoreServer::set_secret(std::string_view key, base::Secret value) {
  const std::lock_guard lock(mutex_);
  keys_.set_secret(key, std::move(value));
}

ServerCounts StoreServer::counts() const {
  const std::lock_guard lock(mutex_);
  ServerCounts counts{sessions_.size(), 0, keys_.waiting(), keys_.size()};
  for (const auto& [id, session] : sessions_) counts.pending += session.takes_place() ? 1 : 0;
  return counts;
}

void StoreServer::run() {
  std::array<epoll_event, 64> events{};
  try {
    for (;;) {
      int timeout = 0;
      {
        const std::lock_guard lock(mutex_);
        if (stop_) break;
        timeout = wait_milliseconds();
      }
      const int n = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), timeout);
      if (n < 0 && errno != EINTR) throw Error(fmt::format("epoll_wait: {}", base::error_text(errno)));
      const std::lock_guard lock(mutex_);
      for (int i = 0; i < n; ++i) on_event(events[static_cast<std::size_t>(i)].data.u64, events[static_cast<std::size_t>(i)].events);
      receive_unread();
      on_time(Clock::now());
      answer_waiters();
    }
    const std::lock_guard lock(mutex_);
    shut_down();
  } catch (const std::exception& error) {
    // The clients see their connections close, and report that the store is gone.
    base::log(base::LogLevel::error, fmt::format("the store server stops: {}", error.what()));
    const std::lock_guard lock(mutex_);
    sessions_.clear();
    listeners_.clear();
  }
}

bool StoreServer::can_go_on(Id id) const {
  const auto session = sessions_.find(id);
  return session != sessions_.end() && (session->second.stage == Session::Stage::closing || !session->second.is_full());
}

int StoreServer::wait_milliseconds() const {
  if (std::ranges::any_of(unread_, [&](Id id) { return can_go_on(id); })) return 0;
  Time next = std::min(keys_.next_expiry(), listeners_.next_resume());
  for (const auto& [id, session] : sessions_) next = std::min(next, session.expires);
  if (next == Time::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, longest_wait_ms));
}

void StoreServer::on_event(Id id, std::uint32_t events) {
  if (id == notifier_id) {
    eventfd_t notified = 0;
    ::eventfd_read(notifier_.get(), &notified);
    return;
  }
  if (listeners_.accept(id)) return;
  if (!sessions_.contains(id)) return;  // closed earlier in this batch
  for_client(id, [&] {
    if ((events & EPOLLOUT) != 0) {
      flush(id, sessions_.at(id));
      if (const auto session = sessions_.find(id); session != sessions_.end()) handle_frames(id, session->second);
    }
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 && sessions_.contains(id)) receive(id);
  });
}

void StoreServer::on_time(Time now) {
  while (const auto expired = keys_.take_expired(now)) answer_waiter(expired->first, expired->second, Status::expired);
  std::vector<Id> late;
  for (const auto& [id, session] : sessions_) {
    if (session.expires <= now) late.push_back(id);
  }
  for (const Id id : late) {
    if (sessions_.at(id).pending()) handshake_.log_rejected(sessions_.at(id), "it did not authenticate in time");
    close(id);
  }
  listeners_.resume(now);
}

void StoreServer::shut_down() {
  listeners_.clear();
  answer_waiters();
  const Deadline deadline(time_for_last_answers);
  for (auto& [id, session] : sessions_) {
    while (session.is_blocked() && base::wait_for(session.fd.get(), POLLOUT, deadline) && session.write()) continue;
    if (session.tls) session.tls->close();
    // With unread input at close the kernel would reset the connection and discard the bytes sent last.
    std::array<char, 4096> rest;
    for (int i = 0; i<most_last_reads&& ::recv(session.fd.get(), rest.data(), rest.size(), MSG_DONTWAIT)> 0; ++i) continue;
  }
  sessions_.clear();
}

// ---- connections ------------------------------------------------------------------------------------------------

// Closes the oldest connection that has not authenticated, so that others cannot keep the ranks out. A connection that is still young may be
// authenticating, or reading why it was refused: then the listener pauses instead, and new connections stay in the kernel's queue for that time.
std::chrono::milliseconds StoreServer::make_room() {
  std::size_t pending = 0;
  std::optional<Id> oldest;
  for (const auto& [id, session] : sessions_) {
    if (!session.takes_place()) continue;
    if (!oldest) oldest = id;
    ++pending;
  }
  if (pending < options_.most_pending) return 0ms;
  const Session& session = sessions_.at(*oldest);
  const auto age = Clock::now() - session.since;
  if (age < grace_of_pending) return std::chrono::ceil<std::chrono::milliseconds>(grace_of_pending - age);
  if (session.pending()) handshake_.log_rejected(session, "it did not authenticate, and others were waiting");
  close(*oldest);
  return 0ms;
}

Session& StoreServer::add_session(base::FileDescriptor fd, std::string source, bool trusted) {
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

void StoreServer::receive(Id id) {
  std::array<char, read_size> chunk;
  for (int i = 0; i < most_reads_in_turn; ++i) {
    const auto found = sessions_.find(id);
    if (found == sessions_.end()) return;
    Session& session = found->second;
    if (session.stage == Session::Stage::encryption && !encrypt(id, session)) return;
    if (!can_go_on(id)) break;
    const std::size_t most = session.pending() ? read_size_unauthenticated : chunk.size();
    const ssize_t n = base::receive(session.fd.get(), session.tls.get(), chunk.data(), most);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {
      if (n < 0 && session.tls && !session.tls->error().empty()) handshake_.log_rejected(session, session.tls->error());
      close(id);
      return;
    }
    if (session.stage == Session::Stage::closing) continue;
    session.in.append({chunk.data(), static_cast<std::size_t>(n)});
    const bool may_have_more = static_cast<std::size_t>(n) == most || (session.tls && session.tls->has_unread());
    handle_frames(id, session);
    if (!may_have_more) return;
  }
  const auto session = sessions_.find(id);
  if (session != sessions_.end() && session->second.tls && session->second.tls->has_unread()) unread_.insert(id);
}

void StoreServer::receive_unread() {
  for (const Id id : std::exchange(unread_, {})) {
    if (!sessions_.contains(id)) continue;
    if (can_go_on(id)) {
      for_client(id, [&] {
        handle_frames(id, sessions_.at(id));
        receive(id);
      });
    } else {
      unread_.insert(id);
    }
  }
}

// Goes on with the handshake of TLS. Returns true when it is done; else `session` waits for the socket, or is about to close.
bool StoreServer::encrypt(Id id, Session& session) {
  using Progress = base::TlsConnection::Progress;
  const Progress progress = session.tls->shake_hands();
  if (progress == Progress::done || progress == Progress::waits) {
    if (progress == Progress::done) {
      session.exchange.binding = session.tls->binding();
      session.stage = Session::Stage::greeting;
    }
    watch(id, session);
    return progress == Progress::done;
  }
  if (progress == Progress::lost) {
    close(id);
    return false;
  }
  handshake_.log_rejected(session, session.tls->error());
  // All that was sent must arrive, so the connection is not closed while there is input that nobody has read.
  if (session.tls->met_plain_text())
    session.send(greeting() +
                 Writer(Status::refused).text("this job's connections are encrypted (UNISONO_TLS), and this process's are not").finish());
  session.tls.reset();
  session.begin_to_close(options_.handshake_timeout);
  flush(id, session);
  return false;
}

void StoreServer::flush(Id id, Session& session) {
  if (!session.write()) return close(id);
  if (session.unsent() > options_.most_unsent) {
    handshake_.log_rejected(session, "it asks and does not read the answers");
    return close(id);
  }
  watch(id, session);
}

void StoreServer::watch(Id id, Session& session) {
  std::uint32_t interest = 0;
  if (session.is_blocked()) interest |= EPOLLOUT;
  if (!session.is_full()) interest |= EPOLLIN;
  if (interest == session.interest) return;
  session.interest = interest;
  epoll_event event{interest, {.u64 = id}};
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, session.fd.get(), &event);
}

void StoreServer::close(Id id) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return;
  if (found->second.tls) found->second.tls->close();
  const Session session = std::move(found->second);
  sessions_.erase(found);
  if (session.is_forwarded && forwarder_) forwarder_->forget(id);
  keys_.end(session);
}

}  // namespace unisono::store
