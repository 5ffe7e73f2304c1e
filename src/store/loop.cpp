// The server's thread: waits, receives and sends bytes. New connections are handled in loop_arrivals.cpp, requests in loop_requests.cpp.
#include "store/loop.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include <fmt/format.h>

#include "base/log.h"
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
constexpr auto farewell_time = 500ms;
constexpr int most_last_reads = 256;

}  // namespace

StoreServer::Loop::Loop(ServerOptions options)
    : options_(std::move(options)),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      notifier_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      table_(options_.limits),
      pid_(::getpid()) {
  epoll_event event{EPOLLIN, {.u64 = notifier_id}};
  if (!epoll_ || !notifier_ || ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, notifier_.get(), &event) != 0) {
    throw Error(fmt::format("a store server could not be set up: {}", base::error_text(errno)));
  }
  thread_ = base::Thread("the store server", [this] { run(); });
}

StoreServer::Loop::~Loop() {
  if (::getpid() != pid_) return;  // a child of fork has the object but not the thread
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  ::eventfd_write(notifier_.get(), 1);
  thread_.join();
}

void StoreServer::Loop::listen(base::FileDescriptor listening) {
  const std::lock_guard lock(mutex_);
  base::set_close_on_exec(listening.get());
  base::set_non_blocking(listening.get());
  Listener listener{std::move(listening)};
  listener.local = base::local_address(listener.fd.get()).family() == AF_UNIX;
  const Id id = next_id_++;
  epoll_event event{EPOLLIN, {.u64 = id}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, listener.fd.get(), &event) != 0) {
    throw InvalidArgument(fmt::format("a store cannot serve this descriptor: {}", base::error_text(errno)));
  }
  listeners_.emplace(id, std::move(listener));
}

void StoreServer::Loop::adopt(base::FileDescriptor connected) {
  const std::lock_guard lock(mutex_);
  base::set_close_on_exec(connected.get());
  base::set_non_blocking(connected.get());
  add_session(std::move(connected), "a connection handed over", true);
}

std::optional<std::string> StoreServer::Loop::peek(std::string_view key) const {
  const std::lock_guard lock(mutex_);
  const std::string* value = table_.find(key);
  return value == nullptr ? std::nullopt : std::optional(*value);
}

void StoreServer::Loop::set(std::string_view key, std::string_view value) {
  {
    const std::lock_guard lock(mutex_);
    table_.set(key, value);
    touched_.emplace_back(key);
  }
  ::eventfd_write(notifier_.get(), 1);
}

StoreServer::Counts StoreServer::Loop::counts() const {
  const std::lock_guard lock(mutex_);
  Counts counts{sessions_.size(), 0, waiters_.size(), table_.size()};
  for (const auto& [id, session] : sessions_) counts.pending += session.takes_place() ? 1 : 0;
  return counts;
}

void StoreServer::Loop::run() {
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
      wake_waiters();
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

bool StoreServer::Loop::can_go_on(Id id) const {
  const auto session = sessions_.find(id);
  return session != sessions_.end() && (session->second.stage == Session::Stage::closing || session->second.unsent() <= enough_unsent);
}

int StoreServer::Loop::wait_milliseconds() const {
  if (std::ranges::any_of(unread_, [&](Id id) { return can_go_on(id); })) return 0;
  Time next = waiters_.next_expiry();
  for (const auto& [id, session] : sessions_) next = std::min(next, session.expires);
  for (const auto& [id, listener] : listeners_) {
    if (listener.paused) next = std::min(next, listener.resume);
  }
  if (next == Time::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, longest_wait_ms));
}

void StoreServer::Loop::on_event(Id id, std::uint32_t events) {
  if (id == notifier_id) {
    eventfd_t notified = 0;
    ::eventfd_read(notifier_.get(), &notified);
    return;
  }
  if (const auto listener = listeners_.find(id); listener != listeners_.end()) {
    accept_from(listener->second, id);
    return;
  }
  if (!sessions_.contains(id)) return;  // closed earlier in this batch
  for_client(id, [&] {
    if ((events & EPOLLOUT) != 0) {
      flush(id, sessions_.at(id));
      if (const auto session = sessions_.find(id); session != sessions_.end()) pump(id, session->second);
    }
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 && sessions_.contains(id)) receive(id);
  });
}

void StoreServer::Loop::on_time(Time now) {
  while (const auto expired = waiters_.expire(now)) answer_waiter(expired->first, expired->second, Status::expired);
  std::vector<Id> late;
  for (const auto& [id, session] : sessions_) {
    if (session.expires <= now) late.push_back(id);
  }
  for (const Id id : late) {
    if (sessions_.at(id).pending()) log_rejected(sessions_.at(id), "it did not authenticate in time");
    close(id);
  }
  for (auto& [id, listener] : listeners_) {
    if (!listener.paused || listener.resume > now) continue;
    listener.paused = false;
    epoll_event event{EPOLLIN, {.u64 = id}};
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, listener.fd.get(), &event);
  }
}

void StoreServer::Loop::shut_down() {
  listeners_.clear();
  wake_waiters();
  const Deadline deadline(farewell_time);
  for (auto& [id, session] : sessions_) {
    while (session.is_blocked() && base::wait_for(session.fd.get(), POLLOUT, deadline)) {
      if (session.tls && !session.tls->flush()) break;
      if (session.unsent() == 0) continue;
      const ssize_t n = base::send(session.fd.get(), session.tls.get(), session.out.data() + session.sent, session.unsent());
      if (n < 0 && errno != EAGAIN && errno != EINTR) break;
      if (n > 0) session.sent += static_cast<std::size_t>(n);
    }
    if (session.tls) session.tls->close();
    // With unread input at close the kernel would reset the connection and discard the bytes sent last.
    std::array<char, 4096> rest;
    for (int i = 0; i<most_last_reads&& ::recv(session.fd.get(), rest.data(), rest.size(), MSG_DONTWAIT)> 0; ++i) continue;
  }
  sessions_.clear();
}

void StoreServer::Loop::receive(Id id) {
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
      if (n < 0 && session.tls && !session.tls->error().empty()) log_rejected(session, session.tls->error());
      close(id);
      return;
    }
    if (session.stage == Session::Stage::closing) continue;
    session.in.append({chunk.data(), static_cast<std::size_t>(n)});
    const bool may_have_more = static_cast<std::size_t>(n) == most || (session.tls && session.tls->has_unread());
    pump(id, session);
    if (!may_have_more) return;
  }
  const auto session = sessions_.find(id);
  if (session != sessions_.end() && session->second.tls && session->second.tls->has_unread()) unread_.insert(id);
}

void StoreServer::Loop::receive_unread() {
  for (const Id id : std::exchange(unread_, {})) {
    if (!sessions_.contains(id)) continue;
    if (can_go_on(id)) {
      for_client(id, [&] {
        pump(id, sessions_.at(id));
        receive(id);
      });
    } else {
      unread_.insert(id);
    }
  }
}

// Goes on with the handshake of TLS. Returns true when it is done; else `session` waits for the socket, or is about to close.
bool StoreServer::Loop::encrypt(Id id, Session& session) {
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
  log_rejected(session, session.tls->error());
  // All that was sent must arrive, so the connection is not closed while there is input that nobody has read.
  if (session.tls->met_plain_text())
    send(session,
         greeting() + Writer(Status::refused).text("this job's connections are encrypted (UNISONO_TLS), and this process's are not").finish());
  session.tls.reset();
  begin_to_close(session);
  flush(id, session);
  return false;
}

void StoreServer::Loop::send(Session& session, std::string frame) {
  if (session.sealer) frame = session.sealer->seal(std::move(frame));
  if (session.out.empty()) {
    session.out = std::move(frame);
  } else {
    base::append_wiping(session.out, frame);
    base::wipe(frame);
  }
}

void StoreServer::Loop::flush(Id id, Session& session) {
  if (session.tls && !session.tls->flush()) {
    close(id);
    return;
  }
  while (session.unsent() > 0) {
    const ssize_t n = base::send(session.fd.get(), session.tls.get(), session.out.data() + session.sent, session.unsent());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno != EAGAIN) {
      close(id);
      return;
    }
    if (n < 0) break;
    session.sent += static_cast<std::size_t>(n);
  }
  if (session.unsent() == 0) {
    base::wipe(session.out);  // it may have held a secret
    session.out.shrink_to_fit();
    session.sent = 0;
    if (session.stage == Session::Stage::closing && session.tls) session.tls->close();
    if (session.stage == Session::Stage::closing && !session.is_blocked()) ::shutdown(session.fd.get(), SHUT_WR);
  } else if (session.unsent() > options_.most_unsent) {
    log_rejected(session, "it asks and does not read the answers");
    close(id);
    return;
  } else if (session.sent > enough_unsent) {
    base::wipe_front(session.out, session.sent);
    session.sent = 0;
  }
  watch(id, session);
}

void StoreServer::Loop::watch(Id id, Session& session) {
  std::uint32_t interest = 0;
  if (session.is_blocked()) interest |= EPOLLOUT;
  if (session.unsent() <= enough_unsent) interest |= EPOLLIN;
  if (interest == session.interest) return;
  session.interest = interest;
  epoll_event event{interest, {.u64 = id}};
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, session.fd.get(), &event);
}

void StoreServer::Loop::close(Id id) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return;
  for (const std::uint64_t waiter : found->second.waiting) waiters_.drop(waiter);
  if (found->second.tls) found->second.tls->close();
  const auto will = std::move(found->second.will);
  sessions_.erase(found);
  for (const auto& [key, value] : will) {
    if (table_.find(key) != nullptr) continue;
    try {
      table_.set(key, value);
      touched_.push_back(key);
    } catch (const InvalidArgument& error) {  // the table is full
      base::warn(fmt::format("the store could not keep what a connection left: {}", error.message()));
    }
  }
}

}  // namespace unisono::store
