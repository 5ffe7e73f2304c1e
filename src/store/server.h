#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/file_descriptor.h"
#include "base/log.h"
#include "base/thread.h"
#include "store/forwarder.h"
#include "store/served_keys.h"
#include "store/session.h"

namespace unisono::store {

/// Holds the data of a store and serves it, from one thread. A get or wait for a missing key is parked here until the key is set or its time is over.
/// No client can stop the others: every socket is non-blocking, memory is never allocated by a length field alone, and a request beyond a limit is an
/// error of that client alone. The mutex covers everything but the wait itself: the thread holds it while it handles a batch of events, the owner
/// while it reads or sets a key.
class StoreServer {
 public:
  explicit StoreServer(ServerOptions options = {});
  /// Sends the pending answers (for at most half a second), then closes everything.
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  /// Serves a listening socket. On TCP the clients authenticate; on AF_UNIX they must run as the same user.
  void listen(base::FileDescriptor listening);
  /// Serves one end of a connected stream that the owner trusts: there is no handshake.
  void adopt(base::FileDescriptor connected);

  std::optional<std::string> peek(std::string_view key) const;
  void set(std::string_view key, std::string_view value);
  /// Sets what clients read by try_get alone, and none can change.
  void set_secret(std::string_view key, base::Secret value);
  /// Leaves the requests of clients that ask for it to what `make` makes.
  void forward_by(const std::function<std::unique_ptr<Forwarder>(Forwarder::Owner)>& make);

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
  void send_answer(Id id, std::string frame);
  void lose_forwarder();
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
  std::unique_ptr<Forwarder> forwarder_;
  const int pid_;
  base::Thread thread_;
};

template <class Handle>
void StoreServer::for_client(Id id, Handle&& handle) {
  try {
    handle();
  } catch (const std::exception& error) {
    base::warn(fmt::format("the store closed a connection: {}", error.what()));
    close(id);
  }
}

}  // namespace unisono::store
