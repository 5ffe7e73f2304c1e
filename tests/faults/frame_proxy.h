#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/file_descriptor.h"
#include "transport/tcp/frame.h"
#include "unisono/store.h"

namespace unisono::testing {

/// An act of a proxy on one unit of a stream, and the unit: a part of the handshake, or a frame.
struct Deed {
  enum class What {
    nothing,
    corrupt,    ///< one bit of byte `at` is another one; counted from the end where `at` is negative
    duplicate,  ///< it comes twice
    swap,       ///< the unit after it comes first
    drop,       ///< it does not come
    cut,        ///< only the first `at` bytes come, and then the end of both connections
    reset,      ///< as cut, by a reset
    hold,       ///< the first `at` bytes come, and the rest when the test says go on
    split,      ///< every unit comes in two parts, divided at each of its bytes in turn
  };
  What what = What::nothing;
  int unit = -1;  ///< a number in the handshake, from 0; -1: a frame
  transport::FrameKind kind = transport::FrameKind::call;
  int nth = 1;  ///< of the units of that kind
  int at = 0;
};

/// The protocol of a stream, of which a proxy knows where its units end. Of an opaque one (encrypted) a unit is what happens to come together, and a
/// deed is done to the unit that has byte `nth` of the stream.
enum class Protocol { link, store, opaque };

/// A way from a client to a server, which carries all bytes in both directions and does one deed to those of one direction. One thread a direction.
class FrameProxy {
 public:
  enum class Direction { to_server, to_client };
  struct Plan {
    Protocol protocol = Protocol::link;
    Direction direction = Direction::to_server;
    Deed deed = {};
    int client = -1;  ///< the rank whose connection is meant, by its hello; -1: every one
  };

  FrameProxy(std::uint16_t server, Plan plan);
  ~FrameProxy();
  FrameProxy(const FrameProxy&) = delete;
  FrameProxy& operator=(const FrameProxy&) = delete;

  std::uint16_t port() const { return port_; }
  /// The deed is done.
  bool has_struck() const { return struck_; }
  /// Lets the bytes that a deed holds back go on.
  void go_on();

 private:
  struct Ends {
    base::FileDescriptor client, server;
    std::atomic<int> from{-1};  ///< the rank that has connected
  };
  class Pump;
  void accept();
  void carry(const std::shared_ptr<Ends>& ends, Direction direction);
  bool wait_to_go_on();

  const std::uint16_t server_;
  const Plan plan_;
  base::FileDescriptor listener_;
  std::uint16_t port_ = 0;
  std::atomic<bool> struck_{false}, ends_{false};
  std::atomic<int> seen_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool goes_on_ = false;
  std::vector<std::shared_ptr<Ends>> connections_;
  std::list<std::thread> pumps_;
  std::thread acceptor_;
};

/// Puts a proxy before each rank that listens, as the ranks tell it in the store (proxied_store.h).
class ProxiedLinks {
 public:
  ProxiedLinks(std::shared_ptr<Store> store, int ranks, FrameProxy::Plan plan, int server);
  ~ProxiedLinks();
  bool has_struck() const;
  void go_on();

 private:
  std::atomic<bool> ends_{false};
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<FrameProxy>> proxies_;
  std::vector<std::thread> threads_;
};

}  // namespace unisono::testing
