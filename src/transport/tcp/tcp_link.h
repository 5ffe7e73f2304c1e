#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "base/thread.h"
#include "transport/tcp/meeting.h"
#include "transport/tcp/on_demand.h"
#include "transport/tcp/peer.h"

namespace unisono::transport {

/// The link: its peers, one mutex for all of them, and the thread. The thread that holds the mutex moves the bytes of all peers; notices are
/// delivered after it is released. While callers poll, or one sleeps here, the link's thread leaves the sockets alone and only wakes to see whether
/// they still do. When no caller has polled for a moment, or one sleeps elsewhere, it waits for the sockets itself.
class TcpLink final : public Link, public std::enable_shared_from_this<TcpLink> {
 public:
  /// `tree`: of a link that connects on demand.
  TcpLink(Options options, MeetingResult met, std::optional<WatchTree> tree);
  ~TcpLink() override;
  TcpLink(const TcpLink&) = delete;
  TcpLink& operator=(const TcpLink&) = delete;

  std::unique_ptr<Task> send(const void* data, std::size_t bytes, int rank, ChannelKey channel) override;
  std::unique_ptr<Task> recv(void* data, std::size_t bytes, int rank, ChannelKey channel) override;
  void end(std::uint64_t group) override;
  void notify(int peer, std::uint64_t group, std::string_view text) override;
  void post(int peer, std::uint64_t group, std::span<const std::byte> head, std::span<const std::byte> data) override;
  bool take(int peer, std::uint64_t group, std::string& into) override;
  void look(int peer) override;
  void listen(std::uint64_t group, Listener listener) override;
  void poll() noexcept override;
  bool sleep(const std::function<bool()>& is_over, std::chrono::nanoseconds at_most) override;
  std::optional<Loss> lost() const override;
  bool is_gone(int peer) const override;
  bool has_left(int peer) const override;
  std::chrono::milliseconds silence_of(int peer) const override;
  void goodbye(std::chrono::milliseconds at_most) override;
  std::string address_of(int peer) const override;
  const Protection& protection() const override { return protection_; }
  std::size_t connections() const override;
  void announce(std::uint64_t group, std::span<const int> members, std::string_view text, Announcement what) override;

  /// Learns where all ranks listen, by the tree; collective. Throws Timeout and PeerFailed.
  void learn_addresses(const base::Deadline& deadline);
  void withdraw(const TransferPtr& transfer);
  void detach(const TransferPtr& transfer);
  /// Returns a number that grows whenever the bytes of all peers have been moved.
  std::uint64_t turns() const { return turns_.load(std::memory_order_relaxed); }

 private:
  using Time = base::Clock::time_point;
  Peer* find(int rank) const;
  std::unique_ptr<Task> task_of(TransferPtr transfer, bool sends);

  // Called with the mutex held.
  /// Returns true for a rank that has left and whose notices have all been delivered. It stays true.
  bool shows_departure(int rank) const;
  /// Returns the connection with a rank, or what waits for it. Throws InvalidArgument where there will be none.
  Peer& connected(int rank);
  Peer& peer_of(int rank);
  Peer& new_peer(int rank);
  void open(Peer& peer, Established connection);
  void pump(Peer& peer, Time now);
  void pump_all();
  void watch(Peer& peer);
  void arm(Peer& peer);
  void note(Loss loss);
  void tick(Time now);
  // Of a link that connects on demand, with the mutex held (link_on_demand.cpp, link_words.cpp).
  void begin_on_demand(WatchTree tree, Caller caller, Acceptor acceptor);
  std::string address_known_of(int rank) const;
  bool has_heard_of(int rank, Heard what) const { return demand_ && demand_->heard[static_cast<std::size_t>(rank)] == what; }
  bool is_wanted(int rank) const;
  bool has_told_all();
  void dial(int rank, Connector::Patience patience);
  void need(const Peer& peer);
  void await(Peer& peer);
  void reattach();
  bool is_tree_neighbour(int rank) const;
  void expect_orphans_of(int rank);
  void tick_on_demand(Time now);
  void hear(const Departure& departure);
  void take_departure(const Departure& departure, int from);
  void take_last_notices(const Departure& departure);
  void tell(Peer& peer, std::span<const Departure> departures);
  void keep_for_goodbye(std::uint64_t group, const SpreadNotice& notice);
  void say_farewell(Peer& peer);
  bool may_be_connected_soon(int rank) const { return demand_->dialled.contains(rank) || demand_->accepted.contains(rank); }
  void hand_words_on();
  void take_word(const Word& word);
  void take_spread(const Word& word);
  void tell_departures();
  void send_spread(std::uint64_t group, const SpreadNotice& notice, int from);
  void release_held_back();
  void decide();
  void forget_attempts_at(int rank);
  void greet(Peer& peer);
  void write_word(Peer& peer, FrameKind kind, std::uint64_t group, std::string_view payload);
  void write_word(Peer& peer, FrameWriter* writer, FrameKind kind, std::uint64_t group, std::string_view payload);
  // The same, without the mutex.
  void on_connected(int rank, Established connection);
  void on_failed(int rank, const std::string& why);
  void on_broken(const std::string& why) noexcept;
  void tell(int rank, std::uint64_t group, std::string_view text);

  // Called without the mutex.
  void count_poll();
  void prepare_to_sleep();
  void after(bool stirred);
  void hand_on();
  void deliver(Notice& notice);
  bool wait_until(const base::Deadline& deadline, const std::function<bool()>& done);

  void stop_thread() noexcept;
  void run();
  void work();
  void fail() noexcept;
  void leave_to_callers(Time until);
  void wait_for_sockets(Time until);
  bool someone_sleeps() const { return options_.has_waiter && options_.has_waiter(); }

  const Options options_;
  const Protection protection_;

  mutable std::mutex mutex_;
  SharedState shared_;
  int deliveries_ = 0;                          ///< of notices, under way
  mutable std::vector<bool> departures_shown_;  ///< by rank
  std::vector<std::unique_ptr<Peer>> peers_;    ///< by rank; null: not connected
  std::vector<Peer*> open_;
  std::optional<Loss> loss_;
  std::atomic<bool> any_loss_{false};
  base::FileDescriptor epoll_;
  base::FileDescriptor notifier_;  ///< wakes the link's thread
  base::FileDescriptor kick_;      ///< wakes the thread that sleeps here
  Time last_tick_;

  std::atomic<bool> has_notices_{false};
  std::recursive_mutex delivery_;  ///< guards the four members below; held while a listener runs, and taken before the mutex
  std::unordered_map<std::uint64_t, std::shared_ptr<Listener>> listeners_;
  std::unordered_map<std::uint64_t, std::vector<Notice>> kept_;  ///< for groups without a listener so far
  std::size_t kept_bytes_ = 0;
  EndedGroups quiet_;  ///< groups that are over, which get no listener any more

  std::atomic<std::uint64_t> polls_{0};
  std::atomic<std::uint64_t> turns_{0};  ///< of pump_all
  std::atomic<std::uint32_t> looks_{0};  ///< at single peers
  std::mutex sleeper_;                   ///< held by the thread that sleeps here
  std::atomic<bool> sleeps_here_{false};
  std::atomic<bool> hands_off_{false}, stop_{false};
  const pid_t pid_;
  base::Thread thread_;
  std::unique_ptr<OnDemand> demand_;  ///< null: all connections were made at once
};

}  // namespace unisono::transport
