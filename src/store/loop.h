#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

#include "base/log.h"
#include "base/thread.h"
#include "store/server.h"
#include "store/session.h"
#include "store/waiters.h"

namespace unisono::store {

/// The server's thread and its data. The mutex covers everything but the wait itself: the thread holds it while it handles a batch of events, the
/// owner while it reads or sets a key.
class StoreServer::Loop {
 public:
  explicit Loop(ServerOptions options);
  ~Loop();

  void listen(base::FileDescriptor listening);
  void adopt(base::FileDescriptor connected);
  std::optional<std::string> peek(std::string_view key) const;
  void set(std::string_view key, std::string_view value);
  void set_secret(std::string_view key, base::Secret value) {
    const std::lock_guard lock(mutex_);
    secrets_.insert_or_assign(std::string(key), std::move(value));
  }
  Counts counts() const;

 private:
  using Id = std::uint64_t;
  using Time = base::Clock::time_point;
  struct Listener {
    base::FileDescriptor fd;
    bool local = false;  ///< AF_UNIX
    bool paused = false;
    Time resume{};
  };

  /// The answer to a request: the reply, "absent", one to come when the keys are there, or a refusal.
  enum class Outcome { done, absent, parked, malformed };

  void run();
  int wait_milliseconds() const;
  /// Handles a client's bytes; an exception ends the connection of that client alone.
  template <class Handle>
  void for_client(Id id, Handle&& handle);
  void on_event(Id id, std::uint32_t events);
  void on_time(Time now);
  void shut_down();

  void accept_from(Listener& listener, Id id);
  void accept_all(Listener& listener, Id id);
  bool admits_local(int fd) const;
  bool make_room(Listener& listener, Id id);
  void pause(Listener& listener, Id id, std::chrono::milliseconds time);
  Session& add_session(base::FileDescriptor fd, std::string source, bool trusted);

  void receive(Id id);
  void receive_unread();
  bool can_go_on(Id id) const;
  bool encrypt(Id id, Session& session);
  void pump(Id id, Session& session);
  std::optional<std::string> take_frame(Session& session, std::size_t most);
  void greet(Session& session);
  void shake_hands(Id id, Session& session, std::string_view frame);
  void answer(Id id, Session& session, std::string_view frame);
  Outcome park_request(Id id, Session& session, std::uint64_t request, Op op, Reader& in);
  Outcome read_all(Reader& in, Writer& reply) const;
  Outcome carry_out(Session& session, Op op, Reader& in, Writer& reply);
  Outcome take_will(Session& session, Reader& in);
  void park(Id id, Session& session, std::uint64_t request, std::vector<std::string> keys, std::int64_t timeout_ms, Op op);
  void wake_waiters();
  /// Answers a waiter that was taken out. Its session may be gone afterwards.
  void answer_waiter(std::uint64_t id, const Waiter& waiter, Status status);

  void send(Session& session, std::string frame);
  void refuse(Session& session, std::uint64_t request, std::string_view why);
  void begin_to_close(Session& session);
  void flush(Id id, Session& session);
  void watch(Id id, Session& session);
  void close(Id id);
  void log_rejected(const Session& session, std::string_view what);

  const ServerOptions options_;
  /// With more unsent bytes a connection is not read from, so that a client that only asks cannot fill the server's memory.
  static constexpr std::size_t enough_unsent = std::size_t{16} << 20;

  mutable std::mutex mutex_;
  base::FileDescriptor epoll_, notifier_;
  Table table_;
  std::map<std::string, base::Secret, std::less<>> secrets_;
  Waiters waiters_;
  std::vector<std::string> touched_;  ///< keys set since the waiters were last looked at
  std::map<Id, Listener> listeners_;
  std::map<Id, Session> sessions_;  ///< in the order of their arrival
  std::set<Id> unread_;             ///< sessions with requests here that wait to be answered, or in TLS to be read, of which epoll knows nothing
  std::unordered_map<std::string, Time> rejected_;
  Id next_id_ = 1;
  bool stop_ = false;
  const int pid_;
  base::Thread thread_;
};

template <class Handle>
void StoreServer::Loop::for_client(Id id, Handle&& handle) {
  try {
    handle();
  } catch (const std::exception& error) {
    base::warn(fmt::format("the store closed a connection: {}", error.what()));
    close(id);
  }
}

}  // namespace unisono::store
