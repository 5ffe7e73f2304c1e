#include "launch/job/rank_starter.h"

#include "launch/output/line_buffering.h"
#include "recorder/recorder.h"
#include "recorder/trace_file.h"

namespace unisono::launcher {

RankStarter::RankStarter(const JobParts& parts, int attempt, OutputMultiplexer& output, const RankStore& store, RankRecords& records)
    : parts_(parts), attempt_(attempt), output_(output), store_(store), records_(records), master_port_(parts.terms().master_port) {
  // On several nodes the port belongs to the first node's rank 0, and that node's launcher reserves it. The ranks of a function meet through the
  // launcher, so a port that was given is left alone.
  if (parts_.options.hosts.nnodes == 1 && (!parts_.options.function || master_port_ == 0)) {
    port_.emplace(static_cast<std::uint16_t>(master_port_));
    master_port_ = port_->port();
  }
  parts_.stdin_pump.begin_attempt();
  if (parts_.view != nullptr) parts_.view->begin_attempt(attempt);
  mpi_ = MpiWorld::make(parts_.options, attempt, parts_.hosts);
}

void RankStarter::set_variables(const Order& order, EnvironmentBlock& environment) const {
  const JobOptions& options = parts_.options;
  environment.set("RANK", parts_.terms().first_rank + static_cast<int>(order.index));
  environment.set("WORLD_SIZE", parts_.terms().world_size);
  environment.set("LOCAL_RANK", static_cast<int>(order.index));
  environment.set("LOCAL_WORLD_SIZE", options.ranks);
  environment.set("GROUP_RANK", options.hosts.node_rank);
  environment.set("GROUP_WORLD_SIZE", parts_.hosts.present());
  environment.set("MASTER_ADDR", parts_.terms().address);
  environment.set("MASTER_PORT", master_port_);
  environment.set("UNISONO_LAUNCHER_FD", order.store_fd);
  if (order.newcomer > 0) environment.set("UNISONO_NEWCOMER", order.newcomer);
  else environment.remove("UNISONO_NEWCOMER");  // of a launcher around this one
  if (!options.trace_folder.empty()) environment.set(recorder::trace_variable, options.trace_folder);
  environment.set("UNISONO_JOB_ID", parts_.job_id);
  environment.set("UNISONO_ATTEMPT", attempt_);
  if (!options.backend.empty()) environment.set("UNISONO_BACKEND", options.backend);
}

Child RankStarter::start(const Order& order, std::vector<int> to_close) {
  const JobOptions& options = parts_.options;
  const int local_rank = static_cast<int>(order.index);
  const int rank = parts_.terms().first_rank + local_rank;
  ChildPlan plan{.environment = EnvironmentBlock(options.environment)};
  EnvironmentBlock& environment = plan.environment;
  set_variables(order, environment);
  const RankRecords::File record = records_.make(rank, order.name);
  if (*record) environment.set(recorder::record_variable, record->get());
  if (mpi_) mpi_->prepare(local_rank, plan);
  if (!environment.has("OMP_NUM_THREADS")) environment.set("OMP_NUM_THREADS", parts_.openmp_share);
  OutputMultiplexer::WritingEnds ends;
  if (options.shown.output == OutputMode::prefixed) {
    ends = output_.open(local_rank);
    if (!ends.out_is_terminal) write_line_by_line(environment, ends.out.get(), parts_.task.path);
    // The variable tells whether a progress bar would be seen, also where the rank writes to a pipe.
    environment.set("UNISONO_TERMINAL", parts_.console.out().is_terminal() ? 1 : 0);
    plan.stdout_fd = ends.out.get();
    plan.stderr_fd = ends.err.get();
  }
  const base::FileDescriptor input = parts_.stdin_pump.open(rank);
  if (input) plan.stdin_fd = input.get();
  plan.launcher_fd = order.store_fd;
  plan.record_fd = record->get();
  if (options.binding == Binding::core) plan.cpu = parts_.cpus[order.index % parts_.cpus.size()];
  plan.descriptor_limit = parts_.descriptor_limit;
  plan.signals = parts_.signals;
  add_descriptors_to_close(order.index, to_close);
  plan.close_in_function = to_close;
  Child child = start_child(parts_.task, plan, parts_.watchdog);
  records_.put(order.index, record);
  if (parts_.view != nullptr) parts_.view->add(rank, child.pid, record);
  return child;
}

void RankStarter::add_descriptors_to_close(std::size_t index, std::vector<int>& all) const {
  for (const std::vector<int>& more :
       {output_.descriptors(), store_.descriptors_of_others(index), records_.descriptors_of_others(index), parts_.stdin_pump.descriptors()}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  all.push_back(parts_.watchdog.life_line());
  if (parts_.signals != nullptr) all.push_back(parts_.signals->fd());
}

void RankStarter::started() {
  if (mpi_) mpi_->started();
}

void RankStarter::wait_for(PollSet& set) {
  if (mpi_) mpi_->wait_for(set);
}

}  // namespace unisono::launcher
