#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "base/tls_library.h"
#include "store/session.h"

namespace unisono::store {

/// The sockets at which a server listens: accepts connections, or pauses where there is no room or no means for another one.
class Listeners {
 public:
  using Id = std::uint64_t;
  using Time = base::Clock::time_point;
  struct Owner {
    /// Returns the time until there is room for another connection that has not authenticated; none: there is room now.
    std::function<std::chrono::milliseconds()> make_room{};
    std::function<void(base::FileDescriptor fd)> add_local{};
    std::function<void(base::FileDescriptor fd, std::string source, std::unique_ptr<base::TlsConnection> tls)> add{};
  };
  /// `epoll` watches the sockets, by their ids.
  Listeners(int epoll, const ServerOptions& options, Owner owner) : epoll_(epoll), options_(options), owner_(std::move(owner)) {}

  /// Throws InvalidArgument.
  void add(Id id, base::FileDescriptor listening);
  /// Accepts what has come at that socket. Returns false where the id is none of these.
  bool accept(Id id);
  /// Ends the pauses that are over.
  void resume(Time now);
  Time next_resume() const;
  void clear() { listeners_.clear(); }

 private:
  struct Listener {
    base::FileDescriptor fd;
    bool local = false;  ///< AF_UNIX
    bool paused = false;
    Time resume{};
  };
  void accept_all(Id id, Listener& listener);
  void add_remote(base::FileDescriptor fd);
  bool admits_local(int fd) const;
  void pause(Id id, Listener& listener, std::chrono::milliseconds time);
  void watch(Id id, const Listener& listener) const;

  const int epoll_;
  const ServerOptions& options_;
  const Owner owner_;
  std::map<Id, Listener> listeners_{};
};

}  // namespace unisono::store
