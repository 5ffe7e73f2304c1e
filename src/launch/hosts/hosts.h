#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launch/hosts/elastic_hosts.h"
#include "launch/hosts/job_hosts.h"
#include "launch/hosts/node_exchange.h"
#include "launch/hosts/nodes_text.h"
#include "launch/process/first_cause.h"
#include "launch/process/poll_set.h"
#include "launch/view/job_view.h"
#include "store/server.h"

namespace unisono::launcher {

/// The numbers and names on which the launchers of a job have agreed. A lone launcher has them from its options.
struct JobTerms {
  int node = 0;  ///< the number of this host
  int first_rank = 0, world_size = 0;
  int least_ranks = 0;        ///< the job goes on while so many ranks live, on all hosts together; 0: every failure ends it
  int max_restarts = 0;       ///< the number given to node 0
  int master_port = 0;        ///< on several hosts: a free port on node 0, for programs of other libraries
  std::string address = {};   ///< of node 0
  std::string job_name = {};  ///< all launchers of the job use the same
  bool is_open = false;       ///< hosts may come and go while the job runs: --nnodes MIN:MAX
  bool is_late = false;       ///< the job ran already when this host came
};

/// The hosts of a job as the launcher on one of them knows them. A job on one host has OneHost, which has nobody to talk to; the launchers of several
/// hosts are connected by Nodes.
class Hosts {
 public:
  Hosts() = default;
  virtual ~Hosts() = default;
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;

  virtual const JobTerms& terms() const = 0;
  /// Tells whether this launcher is one of several, which report to each other.
  virtual bool are_several() const = 0;
  /// Returns how many hosts take part now.
  virtual int present() const = 0;
  /// Returns all hosts that have taken part, by number.
  virtual std::vector<JobHost> all() const = 0;
  virtual std::string name_of(int node) const = 0;
  virtual int node_of(int rank) const = 0;
  /// Tells whether this launcher decides for all.
  virtual bool decides() const = 0;
  /// Tells whether this signal takes this host out of the job, which goes on.
  virtual bool is_left_by(int signal) const = 0;

  /// Makes the way in which the launchers of a job that goes on without lost ranks hear of those. `restarts_left`: for this attempt.
  virtual std::unique_ptr<ElasticPeers> make_elastic(int attempt, int restarts_left) const = 0;
  /// Makes a way to exchange texts during an attempt. `name` is that of its purpose. Null on one host.
  virtual std::unique_ptr<NodeExchange> make_exchange(std::string_view name, int attempt) const = 0;
  /// Tells the launchers of the other hosts what this one's ranks do, when they ask: `look` is called by another thread, to the end of this object.
  virtual void answer_for_states(std::function<JobSeen()> look) = 0;
  /// Returns what the ranks of the other hosts do, of those whose launchers answer within two seconds. Any thread may call it after
  /// answer_for_states.
  virtual std::vector<JobSeen> states_of_others() const = 0;
  /// Tells the ranks of this host, through their launcher's store, where the store of the job is.
  virtual void tell_ranks(store::StoreServer& launchers, int attempt) const = 0;

  virtual void begin(int attempt) = 0;
  /// Calls `ready` in a round where there is something to take.
  virtual void wait_for(PollSet& set, std::function<void()> ready) = 0;
  /// Tells the others, who wait for the next attempt or its end, that there will be none.
  virtual void give_up_restart(int attempt, int signal) noexcept = 0;
  /// Reports trouble on this node. Only the first report of an attempt counts, whichever node writes it.
  virtual void tell(Trouble trouble) = 0;
  /// Takes no host in any more, because the job comes to its end.
  virtual void close() = 0;
  /// Returns which hosts have come and gone since the last call, as sentences.
  virtual std::vector<std::string> take_news() = 0;
  /// Returns the first trouble of another node, that the others have taken this one for lost, or that the job has lost its place; once in an attempt.
  virtual std::optional<Trouble> take_trouble() = 0;
  /// Returns the trouble that was reported first, by whichever node.
  virtual std::optional<Trouble> first_trouble() = 0;
  /// Reports that this node's ranks have ended.
  virtual void end(const std::vector<RankEnd>& ends) = 0;
  /// Returns true when the ranks of all nodes have ended or are lost.
  virtual bool all_ended() = 0;
  /// Returns the ends of the attempt in the order of the ranks, without those of lost nodes.
  virtual std::vector<RankEnd> ends() = 0;
  /// Returns how many processes were started in the place of lost ones, on all hosts; known when all ranks have ended.
  virtual int replacements() = 0;
};

}  // namespace unisono::launcher
