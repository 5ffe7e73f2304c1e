#pragma once

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "base/thread.h"
#include "launch/hosts/admission.h"
#include "launch/hosts/elastic_hosts.h"
#include "launch/hosts/job_hosts.h"
#include "launch/hosts/node_exchange.h"
#include "launch/hosts/node_states.h"
#include "launch/hosts/nodes_text.h"
#include "launch/hosts/silence_watch.h"
#include "launch/job_options.h"
#include "launch/process/first_cause.h"
#include "launch/process/host.h"
#include "store/client.h"

namespace unisono::launcher {

/// Connects the launchers of a job of several hosts, each of which starts the ranks of its host. They meet in a store served by node 0 at the address
/// that every launcher was given; the ranks meet there as well. The launchers agree on the number of ranks of each node, report failures to each
/// other, and combine how all ranks have ended, so that all of them name the same cause and return the same exit code.
///
/// The end of a launcher's connection shows its death; silence shows that it is cut off.
class Nodes {
 public:
  /// Waits for all launchers, at most as long as ranks wait for each other. Construct it before signals are handled and after the last fork without
  /// exec. Throws InvalidArgument, Mismatch, Timeout (which names the missing nodes and those that came) or ProtocolError.
  explicit Nodes(const JobOptions& options);
  /// Node 0 waits a moment until the others no longer use its store.
  ~Nodes();
  Nodes(const Nodes&) = delete;
  Nodes& operator=(const Nodes&) = delete;

  int node() const { return node_; }
  /// Returns how many hosts take part now.
  int hosts() const { return hosts_.present(); }
  int first_rank() const { return first_rank_; }
  int world_size() const { return world_size_; }
  int max_restarts() const { return max_restarts_; }  ///< the number given to node 0
  std::string address() const { return store_address_.host(); }
  int master_port() const { return master_port_; }  ///< a free port on node 0, for programs of other libraries
  /// The job goes on while so many ranks live; 0: every failure ends it.
  int least_ranks() const { return least_ranks_; }
  /// Tells whether hosts may come and go while the job runs: --nnodes MIN:MAX.
  bool is_open() const { return is_open_; }
  /// Tells whether the job ran already when this host came.
  bool is_late() const { return is_late_; }
  /// Tells whether this signal takes this host out of the job, which goes on. A host that is taken back is told so by SIGTERM. Host 0 serves the
  /// store, so the job ends with it.
  bool is_left_by(int signal) const { return is_open_ && node_ != 0 && signal == SIGTERM; }
  std::string name_of(int node) const;
  int node_of(int rank) const;

  /// Returns a name of the job that all its launchers use.
  std::string job_name() const { return job_name_; }
  /// Returns all hosts that have taken part, by number.
  std::vector<JobHost> all_hosts() const { return hosts_.all(); }
  /// Makes the way in which the launchers of a job that goes on without lost ranks hear of those.
  std::unique_ptr<ElasticHosts> make_elastic(int attempt) const;
  /// Makes a way to exchange texts during an attempt. `name` is that of its purpose.
  std::unique_ptr<NodeExchange> make_exchange(std::string_view name, int attempt) const;

  /// Tells the launchers of the other hosts what this one's ranks do, when they ask: `look` is called by another thread, to the end of this object.
  void answer_for_states(std::function<JobSeen()> look);
  /// Returns what the ranks of the other hosts do, of those whose launchers answer within two seconds. Any thread may call it after
  /// answer_for_states.
  std::vector<JobSeen> states_of_others() const { return states_->of_others(); }

  /// Tells the ranks of this host, through their launcher's store, where the store of the job is.
  void tell_ranks(store::StoreServer& launchers, int attempt) const;

  /// Returns a descriptor that is readable when there is something to take.
  int fd() const { return notifier_.get(); }
  void begin(int attempt);
  /// Tells the others, who wait for the next attempt or its end, that there will be none.
  void give_up_restart(int attempt, int signal) noexcept;
  /// Reports trouble on this node. Only the first report of an attempt counts, whichever node writes it.
  void tell(Trouble trouble);
  /// Takes no host in any more, because the job comes to its end.
  void close();
  /// Returns which hosts have come and gone since the last call, as sentences.
  std::vector<std::string> take_news();
  /// Returns the first trouble of another node, that the others have taken this one for lost, or that the job has lost its place; once in an attempt.
  std::optional<Trouble> take_trouble();
  /// Reports that this node's ranks have ended.
  void end(const std::vector<RankEnd>& ends);
  /// Returns true when the ranks of all nodes have ended or are lost.
  bool all_ended();
  /// Returns the ends of the attempt in the order of the ranks, without those of lost nodes.
  std::vector<RankEnd> ends();
  /// Returns how many processes were started in the place of lost ones, on all hosts; known when all ranks have ended.
  int replacements();
  /// Returns the trouble that was reported first, by whichever node.
  std::optional<Trouble> first_trouble();

 private:
  static constexpr const char* leaving = "it has left";  ///< says a launcher that goes by itself

  void meet(const JobOptions& options);
  void agree(const JobOptions& options, const base::Deadline& deadline);
  void join_fixed(const JobOptions& options, const base::Deadline& deadline, const std::string& place, const std::string& at);
  void join_open(const JobOptions& options, const base::Deadline& deadline, const std::string& at);
  void serve(const JobOptions& options, base::FileDescriptor listening, const std::vector<base::SocketAddress>& addresses, const std::string& place);
  void compare_numbers(const JobOptions& options, const base::Deadline& deadline);
  std::string key(std::string_view name, int node) const;
  std::string attempt_key(std::string_view name) const;
  void beat();
  void look_for_the_gone();
  void look_for_the_gone_of_open();
  void look_for_own_loss();
  void lose_ranks_of(const JobHost& host);
  void hear_of_hosts();
  std::vector<int> hosts_at_the_end(const std::string& own_ends);
  void look_for_the_silent(SilenceWatch& others);
  void listen(int attempt);
  void gather(const std::string& own_ends);
  void lose_store(const std::exception& error);
  void notify() const;

  int node_;
  const int nodes_, least_hosts_;
  const bool is_open_;
  std::chrono::milliseconds silence_;  ///< as host 0 says it
  const base::Secret secret_;
  HostRoster hosts_;
  std::unique_ptr<Admission> admission_;  // of an open job, on node 0
  std::string job_name_;
  bool is_late_ = false;
  int first_rank_ = 0, world_size_ = 0, max_restarts_ = 0, master_port_ = 0, least_ranks_ = 0;
  base::SocketAddress store_address_;
  std::optional<PortReservation> port_;
  std::shared_ptr<store::Client> store_;
  base::FileDescriptor notifier_;

  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  bool stop_ = false;
  int attempt_ = -1;
  std::vector<Trouble> to_tell_;
  std::optional<Trouble> trouble_;
  bool trouble_taken_ = false, complete_ = false;
  std::vector<RankEnd> ends_;
  int replacements_ = 0;
  std::vector<std::string> news_;
  std::optional<std::string> store_lost_;
  base::Thread beating_, listening_, gathering_;
  std::unique_ptr<NodeStates> states_;
};

}  // namespace unisono::launcher
