#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "base/thread.h"
#include "transport/tcp/connecting.h"

namespace unisono::transport {

/// Makes connections with other ranks while a link lives, and accepts theirs, in a thread of its own.
///
/// Two ranks may begin to connect with each other at the same time. The attempt of the lower rank counts then: while it is under way, that rank does
/// not accept the other's, which tries again until it is connected by the first one. A rank is told that it is accepted only where its connection is
/// the one that will be used, so that both sides use the same one and no frame is written into another. (Open MPI's tcp component resolves it by the
/// processes' names as well.)
class Connector {
 public:
  /// What the link has to say, and is told. All are called by the connector's thread, without a lock of the connector's.
  struct Owner {
    std::function<bool(int rank)> wants;                              ///< whether a connection with that rank would be used
    std::function<bool(int rank)> accepts;                            ///< the same; if so, that rank is told that it is accepted
    std::function<void(int rank, Established connection)> connected;  ///< the connection is the link's now
    std::function<void(int rank, const std::string& why)> failed;     ///< the attempts are given up
    std::function<void(const std::string& why)> broken;               ///< no connection will be made any more
  };
  /// How long a rank is dialled: until it answers or the connector's time has passed, but where its system refuses, for 2 s, or not again.
  enum class Patience { usual, none };

  /// `timeout`: of the attempts to connect with one rank.
  Connector(Caller caller, Acceptor acceptor, std::vector<int> peers, std::chrono::milliseconds timeout, Owner owner);
  ~Connector();
  Connector(const Connector&) = delete;
  Connector& operator=(const Connector&) = delete;

  /// Begins to connect with a rank, once. Any thread may call it.
  void dial(int rank, const base::SocketAddress& address, Patience patience);
  /// Ends the attempts: the rank has gone. Any thread may call it.
  void forget(int rank);
  /// Ends the thread. Nothing is called any more when it returns.
  void stop() noexcept;

 private:
  using Time = base::Clock::time_point;
  struct Attempt {
    Dialer dialer;
    Patience patience;
    Time until;
    bool is_superseded = false;  ///< there is a connection, or the rank has gone; the other side ends what is under way
  };
  struct Order {
    int rank;
    bool is_end;
    base::SocketAddress address;
    Patience patience;
  };
  void run();
  void work();
  void take_orders();
  void step();
  void serve(Attempt& attempt, short events, Time now);
  bool wants(int rank);
  Attempt* attempt_of(int rank);
  void wake() const;

  const Caller caller_;
  Acceptor acceptor_;
  const std::chrono::milliseconds timeout_;
  const Owner owner_;
  std::list<Attempt> attempts_;
  std::set<int> ended_;  ///< of the attempts of this step
  base::FileDescriptor notifier_;
  std::mutex mutex_;  ///< guards the orders
  std::vector<Order> orders_;
  std::atomic<bool> stop_{false};
  base::Thread thread_;
};

}  // namespace unisono::transport
