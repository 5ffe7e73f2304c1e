#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "base/thread.h"
#include "launch/first_cause.h"
#include "launch/host.h"
#include "launch/supervisor.h"
#include "store/client.h"

namespace unisono::launcher {

/// What a launcher tells the others of an attempt, where they should end their ranks, too.
struct Trouble {
  enum class Kind { failure, interrupt, lost };
  Kind kind = Kind::failure;
  int node = 0;
  int rank = 0;          ///< failure: which one; lost: the first one of that node
  std::string how = {};  ///< failure: "exit 7", "signal 9"
  int signal = 0;        ///< interrupt
  std::string text() const;
  static std::optional<Trouble> parse(const std::string& text);
};

/// The launchers of a job of several hosts, each of which starts the ranks of its own. They meet in a store that the one of node 0 serves, at the
/// address everybody was given, and in which the ranks meet as well. They agree on who has which ranks; tell each other when a rank fails; and put
/// together how all ranks have ended, so that every one of them names the same cause and ends with the same exit code.
///
/// A launcher that dies is noticed as its connection ends, one that is cut off by its silence.
class Nodes {
 public:
  /// Waits for all of them, at most as long as ranks wait for each other. Before there are signals to be handled, and after the last fork that does
  /// not exec. InvalidArgument, Mismatch, Timeout (which names the missing nodes and those that came), ProtocolError.
  explicit Nodes(const JobOptions& options);
  /// Node 0 waits a moment for the others to be done with its store.
  ~Nodes();
  Nodes(const Nodes&) = delete;
  Nodes& operator=(const Nodes&) = delete;

  int first_rank() const { return first_rank_; }
  int world_size() const { return world_size_; }
  int max_restarts() const { return max_restarts_; }  ///< as node 0 says
  std::string address() const { return store_address_.host(); }
  int master_port() const { return master_port_; }  ///< a free one there, for programs of other libraries
  const std::string& name_of(int node) const { return members_[static_cast<std::size_t>(node)]; }
  int node_of(int rank) const;

  /// Ranks of this host are told where their store is, through that of their launcher.
  void tell_ranks(store::StoreServer& launchers, int attempt) const;

  /// Readable when there is news.
  int fd() const { return notifier_.get(); }
  void begin(int attempt);
  /// The next attempt will not be: the others, who wait for its time or for its end, are told.
  void give_up_restart(int attempt, int signal) noexcept;
  /// Of this node; only the first of an attempt that any of them tells counts.
  void tell(Trouble trouble);
  /// The first of another node, once an attempt.
  std::optional<Trouble> take_trouble();
  /// This node's part of the attempt is over.
  void end(const std::vector<RankEnd>& ends);
  /// All have ended, or are lost.
  bool all_ended();
  /// Of the attempt that all have ended: in the order of the ranks, but for those of lost nodes.
  std::vector<RankEnd> ends();
  /// What was told first, by whichever node.
  std::optional<Trouble> first_trouble();

 private:
  void meet(const JobOptions& options);
  void agree(const JobOptions& options, const base::Deadline& deadline);
  std::string key(std::string_view name, int node) const;
  std::string attempt_key(std::string_view name) const;
  void beat();
  void look_for_the_gone();
  void look_for_the_silent(std::map<int, std::pair<std::string, base::Clock::time_point>>& heard);
  void listen(int attempt);
  void gather(std::string own_ends);
  void lose_store(const std::exception& error);
  void notify() const;

  const int node_, nodes_;
  const std::chrono::milliseconds silence_;
  const std::string secret_;
  std::vector<std::string> members_;  // "host:pid", by node
  std::vector<int> counts_;           // ranks, by node
  int first_rank_ = 0, world_size_ = 0, max_restarts_ = 0, master_port_ = 0;
  base::SocketAddress store_address_;
  std::optional<PortReservation> port_;
  std::shared_ptr<store::Client> store_;
  base::FileDescriptor notifier_;

  std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  bool stop_ = false;
  int attempt_ = -1;
  std::vector<Trouble> to_tell_;
  std::optional<Trouble> trouble_;
  bool trouble_taken_ = false, complete_ = false;
  std::vector<RankEnd> ends_;
  std::optional<std::string> store_lost_;
  base::Thread beating_, listening_, gathering_;
};

}  // namespace unisono::launcher
