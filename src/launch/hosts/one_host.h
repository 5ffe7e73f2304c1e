#pragma once

#include "base/host.h"
#include "launch/hosts/hosts.h"
#include "launch/job_options.h"

namespace unisono::launcher {

/// A host whose launcher has no other one to talk to: the only host of a job, or one whose ranks run a function and find the others by themselves.
class OneHost final : public Hosts {
 public:
  OneHost(const JobOptions& options, const std::string& job_id)
      : terms_{.node = options.hosts.node_rank,
               .first_rank = options.hosts.node_rank * options.ranks,
               .world_size = options.hosts.nnodes * options.ranks,
               .least_ranks = options.min_ranks,
               .max_restarts = options.max_restarts,
               .master_port = options.hosts.master_port,
               .address = options.hosts.master_addr.empty() ? "127.0.0.1" : options.hosts.master_addr,
               .job_name = job_id},
        ranks_(options.ranks),
        present_(options.hosts.nnodes) {}

  const JobTerms& terms() const override { return terms_; }
  bool are_several() const override { return false; }
  int present() const override { return present_; }
  std::vector<JobHost> all() const override { return {{.ranks = ranks_, .where = base::host_name()}}; }
  std::string name_of(int /*node*/) const override { return base::host_name(); }
  int node_of(int /*rank*/) const override { return terms_.node; }
  bool decides() const override { return true; }
  bool is_left_by(int /*signal*/) const override { return false; }
  std::unique_ptr<ElasticPeers> make_elastic(int /*attempt*/, int restarts_left) const override {
    return std::make_unique<NoElasticPeers>(restarts_left);
  }
  std::unique_ptr<NodeExchange> make_exchange(std::string_view /*name*/, int /*attempt*/) const override { return nullptr; }
  void answer_for_states(std::function<JobSeen()> /*look*/) override {}
  std::vector<JobSeen> states_of_others() const override { return {}; }
  void tell_ranks(store::StoreServer& /*launchers*/, int /*attempt*/) const override {}
  void begin(int /*attempt*/) override {}
  void wait_for(PollSet& /*set*/, std::function<void()> /*ready*/) override {}
  void give_up_restart(int /*attempt*/, int /*signal*/) noexcept override {}
  void tell(Trouble /*trouble*/) override {}
  void close() override {}
  std::vector<std::string> take_news() override { return {}; }
  std::optional<Trouble> take_trouble() override { return std::nullopt; }
  std::optional<Trouble> first_trouble() override { return std::nullopt; }
  void end(const std::vector<RankEnd>& /*ends*/) override {}
  bool all_ended() override { return true; }
  std::vector<RankEnd> ends() override { return {}; }
  int replacements() override { return 0; }

 private:
  const JobTerms terms_;
  const int ranks_, present_;
};

}  // namespace unisono::launcher
