#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "transport/tcp/peer.h"

namespace unisono::transport {

/// Learns what concerns ranks that are not all connected with each other.
class ConnectionObserver {
 public:
  virtual ~ConnectionObserver() = default;
  virtual void on_loss(const Link::Loss& loss) = 0;
  /// Called when peers have reported of others, or have said goodbye (SharedState).
  virtual void on_reports() = 0;
};

/// The peers of a link and their open connections: moves all their bytes, sends heartbeats, and knows which peers are lost. Guarded by the link's
/// mutex, but for `has_loss` and `turns`.
class Connections {
 public:
  using Time = base::Clock::time_point;
  /// `callers_poll`: true while no thread waits for the sockets.
  Connections(std::size_t ranks, const std::atomic<bool>& callers_poll) : callers_poll_(callers_poll), peers_(ranks) {}
  /// Begins to watch connections. `observer`: null where all ranks are connected with each other.
  void begin(ConnectionObserver* observer);
  /// Wakes who waits for the sockets when this descriptor can be read.
  void wake_by(int fd);
  int epoll() const { return epoll_.get(); }
  SharedState& shared() { return shared_; }
  const SharedState& shared() const { return shared_; }

  /// Returns null where there is no such peer so far.
  Peer* find(int rank) const {
    return rank < 0 || static_cast<std::size_t>(rank) >= peers_.size() ? nullptr : peers_[static_cast<std::size_t>(rank)].get();
  }
  Peer& add(int rank, const std::string& address);
  void open(Peer& peer, Established connection);
  const std::vector<Peer*>& open_ones() const { return open_; }
  std::size_t open_count() const;
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (const auto& peer : peers_) {
      if (peer) visit(*peer);
    }
  }

  void pump(Peer& peer, Time now);
  void pump_all();
  /// Returns a number that grows whenever the bytes of all peers have been moved.
  std::uint64_t turns() const { return turns_.load(std::memory_order_relaxed); }
  /// Called when bytes wait to be written to a peer, or no longer do.
  void watch(Peer& peer);
  /// Called before a thread waits for the sockets: handles what has been read ahead, and has epoll watch for all that can be moved.
  void prepare_to_wait();
  /// Sends heartbeats where they are due, and finds silent peers. Called after all arrived bytes were read. Returns false where nothing is due.
  bool send_heartbeats(Time now);
  Time next_heartbeat() const;

  /// Notes that a peer is lost for good, as this side has found.
  void record(Link::Loss loss);
  /// Does the same where others have reported it.
  void record_reported(Link::Loss loss);
  void lose_all(const std::string& why);
  bool has_loss() const { return has_loss_.load(std::memory_order_acquire); }
  const std::optional<Link::Loss>& loss() const { return loss_; }
  /// Returns how long nothing had come from a peer at the last heartbeat.
  std::chrono::milliseconds silence_of(int rank) const;

 private:
  void arm(Peer& peer);
  void forget_closed();

  const std::atomic<bool>& callers_poll_;
  ConnectionObserver* observer_ = nullptr;
  base::FileDescriptor epoll_{};
  SharedState shared_{};
  std::vector<std::unique_ptr<Peer>> peers_;  ///< by rank; null: not connected
  std::vector<Peer*> open_{};
  std::optional<Link::Loss> loss_{};  ///< the first one
  std::atomic<bool> has_loss_{false};
  std::atomic<std::uint64_t> turns_{0};
  Time last_heartbeat_ = base::Clock::now();
};

}  // namespace unisono::transport
