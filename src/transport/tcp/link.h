#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "unisono/error.h"
#include "unisono/store.h"
#include "unisono/task.h"

namespace unisono::transport {

/// The TCP connections of this rank of the world with every rank on another host, each proved by both sides to belong to the job. Carries bytes on
/// channels and short notices, and knows which peers are gone. Whoever waits polls it; when nobody does, its one thread does, which also sends
/// heartbeats.
class Link {
 public:
  struct Options {
    int rank = 0;
    std::vector<int> hosts;  // of each rank of the world, the number of its host; ranks of this rank's host are not connected
    std::string address;     // numeric, of ours, on which to listen while the connections are made; the others are told it through the store
    std::shared_ptr<Store> store;
    std::string token;  // the job's secret, without which what the store says is not enough to connect; empty: there is none
    std::chrono::milliseconds timeout{};
    bool all = false;  // connect with the ranks of this rank's host as well
    std::function<void()>
        notify;  // called when something has come that somebody may wait for, by whoever polled; may be called as long as the link is there
    std::function<bool()>
        has_waiter;  // whether somebody sleeps until `notify`: the thread takes over at once. Without it, a moment after the last poll
  };
  /// Collective over the world. The listener is closed when it returns. Throws Timeout (missing()), PeerFailed, ProtocolError, BackendUnavailable (an
  /// address that cannot be bound or reached; names interface and peer).
  static std::shared_ptr<Link> connect(Options options);
  virtual ~Link() = default;

  /// A peer that is lost for good, by its rank in the world.
  struct Loss {
    int peer = -1;
    PeerFailed::Cause cause =
        PeerFailed::Cause::disconnected;  // disconnected: the connection ended or was reset; silent: nothing came for silence_limit()
    std::string text;                     // "the connection to rank 3 (10.0.0.2:41234) was reset"
  };
  using ChannelKey = std::pair<std::uint64_t, std::uint32_t>;  // group, channel

  /// Bytes to and from a rank on another host. In order within a channel; channels do not wait for each other. A receive of another length than what
  /// was sent throws ProtocolError. Up to 64 KiB leave without a matching receive as long as less than 1 MiB to that peer is unreceived; of more,
  /// nothing moves before the receive is there, and nothing is copied twice. A task that is destroyed before it is done belongs to a group that is
  /// over. Where `data` of a receive is null, its bytes go nowhere.
  virtual std::unique_ptr<Task> send(const void* data, std::size_t bytes, int peer, ChannelKey channel) = 0;
  virtual std::unique_ptr<Task> recv(void* data, std::size_t bytes, int peer, ChannelKey channel) = 0;
  /// A group is over: its tasks throw, nobody touches their memory any more, and what still comes for it is dropped.
  virtual void end(std::uint64_t group) = 0;

  /// A short text to a rank, for the listener of that group there; kept until there is one. Never waits; order is kept between two ranks. Nothing
  /// happens if the peer is lost.
  virtual void notify(int peer, std::uint64_t group, std::string_view text) = 0;
  using Listener =
      std::function<void(int peer, std::string_view text)>;  // from any thread that polls; must not call back into the Link but for notify
  virtual void listen(std::uint64_t group,
                      Listener listener) = 0;  // an empty one ends it; when that returns, the old one is not running (unless called from it)

  /// Moves whatever can be moved without waiting. Any thread; another that is at it already makes it return at once. Throws nothing.
  virtual void poll() noexcept = 0;
  /// A peer that is lost without having said goodbye; the first that was noticed. Cheap while there is none.
  virtual std::optional<Loss> lost() const = 0;
  /// Of one rank: lost, or has said goodbye.
  virtual bool is_gone(int peer) const = 0;
  virtual bool has_left(int peer) const = 0;  // said goodbye
  /// This rank finalizes: what was handed over is still sent (at most `at_most`), and the end of the connection is nothing to be noted.
  virtual void goodbye(std::chrono::milliseconds at_most) = 0;
  /// The numeric address of the connection to that rank, "10.0.0.2:41234"; "" for one of this host.
  virtual std::string address_of(int peer) const = 0;
};

}  // namespace unisono::transport
