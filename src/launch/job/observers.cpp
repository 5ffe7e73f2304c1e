#include "launch/job/observers.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/host.h"
#include "launch/hosts/hosts.h"
#include "launch/job_options.h"
#include "launch/output/output.h"

namespace unisono::launcher {

Observers::Observers(const JobOptions& options, const std::string& job, int world_size, Console& console, Hosts& hosts) {
  if (options.function) return;
  view_ = std::make_shared<JobView>(job, options.hosts.node_rank, world_size);
  hosts.answer_for_states([view = view_] { return view->look(); });
  if (hosts.are_several() || options.shown.has_conductor())
    state_server_ = std::make_unique<StateServer>([this, &hosts] { return all_hosts(hosts); });
  if (shows_status_line(options)) status_line_.emplace(console, [this] { return view_->look(); });
  if (!options.shown.metrics_port) return;
  metrics_.emplace([this] { return view_->look(); });
  server_ = std::make_unique<HttpServer>(static_cast<std::uint16_t>(*options.shown.metrics_port),
                                         HttpServer::Page{"/metrics", metrics_type, [this] { return metrics_->text(); }});
  const std::string host = options.hosts.nnodes > 1 ? " on " + base::host_name() : "";
  console.say(fmt::format("metrics: http://127.0.0.1:{}/metrics{}", server_->port(), host), Topic::metrics);
}

std::vector<JobSeen> Observers::all_hosts(const Hosts& hosts) const {
  std::vector<JobSeen> all = hosts.states_of_others();
  all.push_back(view_->look());
  std::ranges::sort(all, {}, &JobSeen::node);
  return all;
}

}  // namespace unisono::launcher
