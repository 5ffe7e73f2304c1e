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

#include "base/environment.h"
#include "base/tls.h"
#include "unisono/error.h"
#include "unisono/store.h"
#include "unisono/task.h"

namespace unisono::transport {

/// The messages by which ranks on different hosts compare the calls of a group. Ranks are ranks in the world.
class CallMail {
 public:
  virtual ~CallMail() = default;
  /// Sends what this rank says of the next call of a group: `head` (call_head_size in frame.h) and `data` as one message of at most longest_call
  /// bytes. Never waits; the order is kept between two ranks. To a lost peer nothing is sent.
  virtual void post(int peer, std::uint64_t group, std::span<const std::byte> head, std::span<const std::byte> data) = 0;
  /// Takes the oldest of the messages that the peer has posted to the group, among those that have been read. Returns false where there is none.
  /// Messages for a group that is over are dropped.
  virtual bool take(int peer, std::uint64_t group, std::string& into) = 0;
  /// Reads what has come from that peer, or from all peers where it is -1.
  virtual void look(int peer) = 0;
};

/// The TCP connections of this rank of the world with every rank on another host, which are made at once, or, among many ranks, when they are first
/// needed (Options::most_eager); both sides of each have proved that they belong to the job. A link carries bytes on channels and short notices, and
/// knows the peers that are gone. A waiting thread polls it; while none does, the link's own thread polls it, which also sends heartbeats.
class Link : public CallMail {
 public:
  struct Options {
    int rank = 0;
    std::vector<int> hosts;  // of each rank of the world, the number of its host; ranks of this rank's host are not connected
    std::string address;     // numeric, of this rank; it listens there while the connections are made, and the store tells the others
    std::shared_ptr<Store> store;
    base::Secret token;         // the job's secret, needed beside the store's content to connect; empty: there is none
    base::TlsOptions tls = {};  // whether the connections are encrypted, and with what
    std::chrono::milliseconds timeout{};
    bool all = false;  // connects the ranks of this rank's host as well
    /// A rank with more peers connects with them when a message is first sent to them or awaited from them, and before that with its neighbours in a
    /// tree (WatchTree) alone. Equal on all ranks.
    std::size_t most_eager = 64;
    std::function<void()>
        notify;  // called by the polling thread when something has come that a rank may wait for; must stay callable during the link's lifetime
    std::function<bool()> has_waiter;  // returns true while a thread sleeps until `notify`: the link's thread takes over at once. Without it, a
                                       // moment after the last poll
  };
  /// Connects the ranks; collective over the world. Where all ranks are connected, the listener is closed when it returns. Throws Timeout
  /// (missing()), PeerFailed, ProtocolError, and BackendUnavailable (an address that cannot be bound or reached; names interface and peer).
  static std::shared_ptr<Link> connect(Options options);

  /// A peer that is lost for good, by its rank in the world.
  struct Loss {
    int peer = -1;
    PeerFailed::Cause cause =
        PeerFailed::Cause::disconnected;  // disconnected: the connection ended or was reset; silent: nothing came for silence_limit()
    std::string text;                     // "the connection to rank 3 (10.0.0.2:41234) was reset"
  };
  using ChannelKey = std::pair<std::uint64_t, std::uint32_t>;  // group, channel

  /// Transfer bytes to and from a rank on another host. The order is kept within a channel; channels do not wait for each other. A receive of another
  /// length than the one sent throws ProtocolError. Messages up to 64 KiB are sent without a matching receive while less than 1 MiB is unreceived at
  /// that peer. Longer ones begin to be sent while there is such room, and
  /// end when the receive has been posted, or, on the channel of collectives, when they have been sent; what comes after the receive is never copied
  /// twice. A task that is destroyed before it is done belongs
  /// to a group that is over. Where `data` of a receive is null, its bytes are discarded.
  virtual std::unique_ptr<Task> send(const void* data, std::size_t bytes, int peer, ChannelKey channel) = 0;
  virtual std::unique_ptr<Task> recv(void* data, std::size_t bytes, int peer, ChannelKey channel) = 0;
  /// Ends a group: its tasks throw, their memory is not used any more, and later data for it is dropped.
  virtual void end(std::uint64_t group) = 0;

  /// Sends a short text, and data of the ranks behind it, to the listener of a group at a rank, where both are kept until there is a listener. Never
  /// waits; the order is kept between two ranks. A notice to a lost peer is discarded.
  virtual void notify(int peer, std::uint64_t group, std::string_view text, std::span<const std::byte> data = {}) = 0;

  /// What a notice to many ranks of a group is about.
  enum class Announcement {
    failure,  ///< the group is over: the first one of any member counts, and no other is needed
    leaving,  ///< this rank leaves the group
    goodbye,  ///< the same of a group with which the link ends: its goodbye follows
    call,     ///< which call this rank makes
  };
  /// Sends a notice to those ranks of the world: to each of them, or, where a rank is not connected with all others, from neighbour to neighbour. Of
  /// one rank's notices to another one the order is kept, but for failures.
  virtual void announce(std::uint64_t group, std::span<const int> members, std::string_view text, Announcement what) = 0;

  using Listener = std::function<void(int peer, std::string text)>;  // from any thread that polls; must not call back into the Link but for notify
  virtual void listen(std::uint64_t group,
                      Listener listener) = 0;  // an empty one ends it; when that returns, the old one is not running (unless called from it)

  /// Moves all bytes that can be moved without waiting. Any thread may call it; it returns at once while another thread does the same. Throws
  /// nothing.
  virtual void poll() noexcept = 0;
  /// Sleeps until a byte comes, or another thread has moved one, or for that time at most; then polls. `is_over` is asked once before. Returns false
  /// at once where another thread sleeps here: that one notifies (Options::notify) when something has come.
  virtual bool sleep(const std::function<bool()>& is_over, std::chrono::nanoseconds at_most) = 0;
  /// Returns the first peer that was lost without a goodbye. Costs little while there is none.
  virtual std::optional<Loss> lost() const = 0;
  /// Returns true for a rank that is lost or has said goodbye.
  virtual bool is_gone(int peer) const = 0;
  virtual bool has_left(int peer) const = 0;  // said goodbye
  /// Returns how long nothing has come from a rank, as this side's heartbeats show; 0 for one that is not connected, or is gone.
  virtual std::chrono::milliseconds silence_of(int peer) const = 0;
  /// Finalizes this rank: pending data is still sent (for at most `at_most`), and the end of a connection is no failure any more.
  virtual void goodbye(std::chrono::milliseconds at_most) = 0;
  /// Returns the numeric address of the connection to that rank, "10.0.0.2:41234", or that at which it listens while there is none; "" for one of
  /// this host.
  virtual std::string address_of(int peer) const = 0;
  /// What keeps others from changing bytes on the way between the ranks of this link, whoever carries them.
  struct Protection {
    base::Secret secret = {};   ///< 32 bytes, from which codes of objects are made; only ranks of the job know it. Empty where there is no token
    bool is_encrypted = false;  ///< the connections of this link are
    bool is_local = false;      ///< all ranks are on this machine, and use loopback addresses
  };
  virtual const Protection& protection() const = 0;
  /// Returns the number of connections that are open now.
  virtual std::size_t connections() const = 0;
};

/// Returns UNISONO_MAX_EAGER_CONNECTIONS, or what holds where it is unset (Link::Options::most_eager). Throws InvalidArgument where it is no number.
std::size_t most_eager_connections(const base::Environment& environment);

}  // namespace unisono::transport
