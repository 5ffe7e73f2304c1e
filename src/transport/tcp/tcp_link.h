#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "base/thread.h"
#include "transport/tcp/connections.h"
#include "transport/tcp/meeting.h"
#include "transport/tcp/on_demand.h"
#include "transport/tcp/peer.h"
#include "transport/tcp/transfer.h"

namespace unisono::transport {

/// Decides which thread moves the bytes of a link, and has a thread for the time in which no caller does. While callers poll, or one sleeps here,
/// that thread leaves the sockets alone and only wakes to see whether they still do. When no caller has polled for a moment, or one sleeps elsewhere,
/// it waits for the sockets itself.
class LinkThread {
 public:
  using Time = base::Clock::time_point;
  struct Owner {
    std::string name{};
    std::function<bool()> has_waiter{};      ///< returns true while a thread sleeps elsewhere; may be empty
    std::function<Time()> step{};            ///< moves what can be moved. Returns the time of the next step without an event
    std::function<void()> before_waiting{};  ///< called before the thread waits for the sockets
    std::function<void()> failed{};          ///< called in the handler of an exception that ends the thread
  };

  /// `callers_poll` is true while the thread leaves the sockets to callers.
  LinkThread(int epoll, std::atomic<bool>& callers_poll, Owner owner);
  ~LinkThread() { stop(); }
  LinkThread(const LinkThread&) = delete;
  LinkThread& operator=(const LinkThread&) = delete;

  /// The descriptors that wake those who wait for the sockets.
  int notifier() const { return notifier_.get(); }
  int wakeup() const { return wakeup_.get(); }
  void start();
  void stop() noexcept;
  /// Returns true in the process that has made the thread: a child of fork has the object but not the thread.
  bool is_of_this_process() const;
  /// Called when a caller polls, or finds without it what it wants.
  void count_poll();
  /// Called by a caller that waits: sleeps until an event, `wake_sleeper`, or for that time. `prepare` is called before, and then `is_over`. Returns
  /// false at once where another thread sleeps here.
  bool sleep(const std::function<void()>& prepare, const std::function<bool()>& is_over, std::chrono::nanoseconds at_most);
  void wake_sleeper();

 private:
  void run();
  void work();
  void leave_to_callers(Time until);
  void wait_for_sockets(Time until);
  bool has_waiter() const { return owner_.has_waiter && owner_.has_waiter(); }

  const int epoll_;
  std::atomic<bool>& callers_poll_;
  const Owner owner_;
  const pid_t pid_;
  base::FileDescriptor notifier_;  ///< wakes the thread
  base::FileDescriptor wakeup_;    ///< wakes the caller that sleeps here
  std::atomic<std::uint64_t> polls_{0};
  std::mutex sleeper_;  ///< held by the caller that sleeps here
  std::atomic<bool> sleeps_here_{false};
  std::atomic<bool> stop_{false};
  base::Thread thread_;
};

/// The listeners of groups. They get notices from one thread at a time, which keeps their order. The notices of groups without a listener are kept.
class NoticeDelivery {
 public:
  void listen(std::uint64_t group, Link::Listener listener);
  void end_group(std::uint64_t group);
  /// Returns a lock without a mutex where another thread delivers. It is taken before the link's mutex.
  std::unique_lock<std::recursive_mutex> try_lock() { return {mutex_, std::try_to_lock}; }
  /// Gives a notice to its listener; called with the lock. Returns false where it is dropped, because too many are kept.
  bool deliver(Notice& notice);

 private:
  std::recursive_mutex mutex_;  ///< held while a listener runs
  std::unordered_map<std::uint64_t, std::shared_ptr<Link::Listener>> listeners_;
  std::unordered_map<std::uint64_t, std::vector<Notice>> kept_;  ///< for groups without a listener so far
  std::size_t kept_bytes_ = 0;
  EndedGroups ended_;  ///< they get no listener any more
};

/// The link: the calls of its users, one mutex for all connections, and what thread does what. The thread that holds the mutex moves the bytes of all
/// peers; notices are delivered after it is released.
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
  void notify(int peer, std::uint64_t group, std::string_view text, std::span<const std::byte> data) override;
  void post(int peer, std::uint64_t group, std::span<const std::byte> head, std::span<const std::byte> data) override;
  bool take(int peer, std::uint64_t group, std::string& into) override;
  void look(int peer) override;
  void listen(std::uint64_t group, Listener listener) override { notices_.listen(group, std::move(listener)); }
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

  /// Learns where all ranks listen; collective. Throws Timeout and PeerFailed.
  void learn_addresses(const base::Deadline& deadline);
  void withdraw(const TransferPtr& transfer);
  void detach(const TransferPtr& transfer);
  /// Returns a number that grows whenever the bytes of all peers have been moved.
  std::uint64_t turns() const { return connections_.turns(); }

 private:
  using Time = base::Clock::time_point;
  std::unique_ptr<Task> task_of(TransferPtr transfer, bool sends);
  /// Called when a caller has received something that the thread had read before.
  void found_without_poll();

  // Called with the mutex held.
  /// Returns true for a rank that has left and whose notices have all been delivered. It stays true.
  bool shows_departure(int rank) const;
  bool is_absent(int rank, Absence absence) const { return demand_ && demand_->absence_of(rank) == absence; }
  /// Returns the connection with a rank, or what waits for it. Throws InvalidArgument where there will be none.
  Peer& connected(int rank);
  /// Called when something was sent to a peer.
  void sent(Peer& peer);
  /// Ends a step that has moved bytes. Returns true where something happened that a caller may wait for.
  bool take_changes();

  // Called without the mutex.
  void after(bool changed);
  void deliver_notices();
  void prepare_to_wait();
  Time step();
  bool wait_until(const base::Deadline& deadline, const std::function<bool()>& done);
  void fail() noexcept;
  Connector::Owner connector_owner();
  void change(const std::function<void()>& change);

  const Options options_;
  const Protection protection_;
  std::atomic<bool> callers_poll_{false};  ///< no thread waits for the sockets

  mutable std::mutex mutex_;
  Connections connections_;
  mutable std::vector<bool> departures_shown_;  ///< by rank
  int deliveries_ = 0;                          ///< of notices, under way

  std::atomic<bool> has_notices_{false};
  NoticeDelivery notices_;
  std::atomic<std::uint32_t> looks_{0};  ///< at single peers
  std::unique_ptr<LinkThread> thread_;   ///< null: there are no connections
  std::unique_ptr<OnDemand> demand_;     ///< null: all connections were made at once. Its thread uses the members above, so it ends first
};

}  // namespace unisono::transport
