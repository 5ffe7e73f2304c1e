#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/file_descriptor.h"
#include "base/log.h"
#include "base/thread.h"
#include "store/listeners.h"
#include "store/served_keys.h"
#include "store/server_options.h"
#include "store/session.h"

namespace unisono::store {

/// The server's thread and its connections. The mutex covers everything but the wait itself: the thread holds it while it handles a batch of events,
/// the owner while it reads or sets a key.
class ServerLoop {
 public:
  explicit ServerLoop(ServerOptions options);
  ~ServerLoop();
  ServerLoop(const ServerLoop&) = delete;
  ServerLoop& operator=(const ServerLoop&) = delete;

  void listen(base::FileDescriptor listening);
  void adopt(base::FileDescriptor connected);
  std::optional<std::string> peek(std::string_view key) const;
  void set(std::string_view key, std::string_view value);
  void set_secret(std::string_view key, base::Secret value);
  ServerCounts counts() const;

 private:
  using Id = std::uint64_t;
  using Time = base::Clock::time_point;

  void run();
  int wait_milliseconds() const;
  /// Handles a client's bytes; an exception ends the connection of that client alone.
  template <class Handle>
  void for_client(Id id, Handle&& handle);
  void on_event(Id id, std::uint32_t events);
  void on_time(Time now);
  void shut_down();

  std::chrono::milliseconds make_room();
  Session& add_session(base::FileDescriptor fd, std::string source, bool trusted);
  void receive(Id id);
  void receive_unread();
  bool can_go_on(Id id) const;
  bool encrypt(Id id, Session& session);
  /// Handles the frames that have come. The session may be gone afterwards.
  void handle_frames(Id id, Session& session);
  void answer(Id id, Session& session, std::string_view frame);
  void answer_waiters();
  void answer_waiter(std::uint64_t id, const Waiter& waiter, Status status);

  void flush(Id id, Session& session);
  void watch(Id id, Session& session);
  void close(Id id);

  const ServerOptions options_;
  mutable std::mutex mutex_;
  base::FileDescriptor epoll_, notifier_;
  ServedKeys keys_;
  ServerHandshake handshake_;
  Listeners listeners_;
  std::map<Id, Session> sessions_;  ///< in the order of their arrival
  std::set<Id> unread_;             ///< sessions with requests here that wait to be answered, or in TLS to be read, of which epoll knows nothing
  Id next_id_ = 1;
  bool stop_ = false;
  const int pid_;
  base::Thread thread_;
};

template <class Handle>
void ServerLoop::for_client(Id id, Handle&& handle) {
  try {
    handle();
  } catch (const std::exception& error) {
    base::warn(fmt::format("the store closed a connection: {}", error.what()));
    close(id);
  }
}

}  // namespace unisono::store
