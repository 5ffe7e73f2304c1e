#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/host.h"
#include "launch/hosts/elastic_hosts.h"
#include "launch/hosts/host_texts.h"
#include "launch/hosts/node_exchange.h"
#include "launch/job_options.h"
#include "launch/process/first_cause.h"
#include "launch/process/poll_set.h"
#include "launch/view/job_view.h"
#include "store/server.h"

namespace unisono::launcher {

/// The hosts of a job as the launcher on one of them knows them. A launcher that has no other one to talk to is OneHost; Nodes connects those of
/// several hosts.
class Hosts {
 public:
  Hosts() = default;
  virtual ~Hosts() = default;
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;

  virtual const JobTerms& terms() const = 0;
  /// Tells whether this launcher is one of several, which report to each other.
  virtual bool are_several() const { return false; }
  /// Returns how many hosts take part now.
  virtual int present() const = 0;
  /// Returns all hosts that have taken part, by number.
  virtual std::vector<JobHost> all() const = 0;
  virtual std::string name_of(int /*node*/) const { return base::host_name(); }
  virtual int node_of(int /*rank*/) const { return terms().node; }
  /// Tells whether this launcher decides for all.
  virtual bool decides() const { return true; }
  /// Tells whether this signal takes this host out of the job, which goes on.
  virtual bool is_left_by(int /*signal*/) const { return false; }

  /// Makes the way in which the launchers of a job that goes on without lost ranks hear of those. `restarts_left`: for this attempt.
  virtual std::unique_ptr<ElasticPeers> make_elastic(int /*attempt*/, int restarts_left) const {
    return std::make_unique<ElasticPeers>(restarts_left);
  }
  /// Makes a way to exchange texts during an attempt. `name` is that of its purpose. Null on one host.
  virtual std::unique_ptr<NodeExchange> make_exchange(std::string_view /*name*/, int /*attempt*/) const { return nullptr; }
  /// Tells the launchers of the other hosts what this one's ranks do, when they ask: `look` is called by another thread, to the end of this object.
  virtual void answer_for_states(std::function<JobSeen()> /*look*/) {}  // NOLINT(performance-unnecessary-value-param): others keep it
  /// Returns what the ranks of the other hosts do, of those whose launchers answer within two seconds. Any thread may call it after
  /// answer_for_states.
  virtual std::vector<JobSeen> states_of_others() const { return {}; }
  /// Tells the ranks of this host, through their launcher's store, where the store of the job is.
  virtual void tell_ranks(store::StoreServer& /*launchers*/, int /*attempt*/) const {}

  virtual void begin(int /*attempt*/) {}
  /// Calls `ready` in a round in which there is something to take.
  virtual void wait_for(PollSet& /*set*/, std::function<void()> /*ready*/) {}  // NOLINT(performance-unnecessary-value-param): others keep it
  /// Tells the others, who wait for the next attempt or its end, that there will be none.
  virtual void give_up_restart(int /*attempt*/, int /*signal*/) noexcept {}
  /// Reports trouble on this node. Only the first report of an attempt counts, whichever node writes it.
  virtual void tell(Trouble /*trouble*/) {}  // NOLINT(performance-unnecessary-value-param): others keep it
  /// Takes no host in any more, because the job comes to its end.
  virtual void close() {}
  /// Returns which hosts have come and gone since the last call, as sentences.
  virtual std::vector<std::string> take_news() { return {}; }
  /// Returns the first trouble of another node, that the others have taken this one for lost, or that the job has lost its place; once in an attempt.
  virtual std::optional<Trouble> take_trouble() { return std::nullopt; }
  /// Returns the trouble that was reported first, by whichever node.
  virtual std::optional<Trouble> first_trouble() { return std::nullopt; }
  /// Reports that this node's ranks have ended.
  virtual void end(const std::vector<RankEnd>& /*ends*/) {}
  /// Returns true when the ranks of all nodes have ended or are lost.
  virtual bool all_ended() { return true; }
  /// Returns the ends of the attempt in the order of the ranks, without those of lost nodes.
  virtual std::vector<RankEnd> ends() { return {}; }
  /// Returns how many processes were started in the place of lost ones, on all hosts; known when all ranks have ended.
  virtual int replacements() { return 0; }
};

/// The only host of a job, or one whose ranks run a function and find the others by themselves.
class OneHost final : public Hosts {
 public:
  OneHost(const JobOptions& options, const std::string& job_id)
      : terms_{.node = options.hosts.node_rank,
               .first_rank = options.ranks_before + options.hosts.node_rank * options.ranks,
               .world_size = options.ranks_before + options.hosts.nnodes * options.ranks,
               .least_ranks = options.min_ranks,
               .max_restarts = options.max_restarts,
               .master_port = options.hosts.master_port,
               .address = options.hosts.master_addr.empty() ? "127.0.0.1" : options.hosts.master_addr,
               .job_name = job_id},
        ranks_(options.ranks),
        present_(options.hosts.nnodes) {}

  const JobTerms& terms() const override { return terms_; }
  int present() const override { return present_; }
  std::vector<JobHost> all() const override { return {{.ranks = ranks_, .where = base::host_name()}}; }

 private:
  const JobTerms terms_;
  const int ranks_, present_;
};

}  // namespace unisono::launcher
