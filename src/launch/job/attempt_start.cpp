// The start of an attempt: every rank gets its variables, its connection to the launcher's store, and pipes or terminals for its output.
#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>

#include <cerrno>

#include "base/host.h"
#include "base/log.h"
#include "base/socket.h"
#include "launch/hosts/nodes.h"
#include "launch/job/attempt.h"
#include "launch/output/line_buffering.h"
#include "launch/process/program.h"
#include "recorder/recorder.h"
#include "recorder/trace_file.h"
#include "rendezvous/launcher_store.h"

namespace unisono::launcher {

void Attempt::start() {
  const int ranks = parts_.options.ranks;
  // On several nodes the port belongs to the first node's rank 0, and that node's launcher reserves it. The ranks of a function meet through the
  // launcher, so a port that was given is left alone.
  if (parts_.options.nnodes == 1 && (!parts_.options.function || master_port_ == 0)) {
    port_.emplace(static_cast<std::uint16_t>(master_port_));
    master_port_ = port_->port();
  }
  // Ranks that connect before the server runs wait in the queue of this socket.
  base::Opened listening = base::try_listen(rendezvous::launcher_address(parts_.job_id, number_));
  if (listening.fd) server_ends_.push_back(listening.fd.get());
  else base::warn(fmt::format("programs that close what they inherit cannot join as ranks: {}", error_text(listening.error)));
  std::vector<base::FileDescriptor> server_ends;
  for (int rank = 0; rank < ranks; ++rank) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
      throw StartFailed("cannot make a socket for rank " + std::to_string(rank) + ": " + error_text(errno), 1);
    }
    server_ends.emplace_back(ends[0]);
    store_ends_.emplace_back(ends[1]);
  }
  // The ranks may write at once. The server has a thread, so it is made only after the last fork.
  for (const auto& end : server_ends) server_ends_.push_back(end.get());
  children_.resize(static_cast<std::size_t>(ranks));
  records_.resize(static_cast<std::size_t>(ranks));
  places_.resize(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    RankEnd end;
    end.rank = first_rank_ + rank;
    end.name = std::to_string(end.rank);
    if (parts_.nodes != nullptr && parts_.nodes->is_late()) {  // all of them are newcomers
      places_[static_cast<std::size_t>(rank)].restarts = 1;
      end.name += ".1";
    }
    end.host = base::host_name();
    ends_.push_back(end);
  }
  parts_.stdin_pump.begin_attempt();
  if (parts_.view != nullptr) parts_.view->begin_attempt(number_);
  mpi_ = MpiWorld::make(parts_.options, parts_.job_id, number_, parts_.nodes);
  for (int rank = 0; rank < ranks; ++rank) start_rank(rank, base::FileDescriptor());
  if (mpi_) mpi_->started();
  store_ends_.clear();
  store_ = std::make_unique<store::StoreServer>(store::ServerOptions{.family_of = ::getpid()});
  if (parts_.nodes != nullptr) parts_.nodes->tell_ranks(*store_, number_);  // first: a rank that finds nothing takes this host for the only one
  if (listening.fd) store_->listen(std::move(listening.fd));
  for (auto& end : server_ends) store_->adopt(std::move(end));
  if (is_elastic() && parts_.nodes != nullptr) elastic_hosts_ = parts_.nodes->make_elastic(number_);
}

/// `store_end`: the rank's end of its connection to the store, where it is not one of those that were made for all.
void Attempt::start_rank(int local_rank, base::FileDescriptor store_end) {
  const JobOptions& options = parts_.options;
  const auto index = static_cast<std::size_t>(local_rank);
  const int rank = first_rank_ + local_rank;
  ChildPlan plan{.environment = EnvironmentBlock(options.environment)};
  EnvironmentBlock& environment = plan.environment;
  environment.set("RANK", rank);
  environment.set("WORLD_SIZE", parts_.world_size);
  environment.set("LOCAL_RANK", local_rank);
  environment.set("LOCAL_WORLD_SIZE", options.ranks);
  environment.set("GROUP_RANK", options.node_rank);
  environment.set("GROUP_WORLD_SIZE", parts_.nodes != nullptr ? parts_.nodes->hosts() : options.nnodes);
  if (parts_.nodes != nullptr) environment.set("MASTER_ADDR", parts_.nodes->address());
  else environment.set("MASTER_ADDR", options.master_addr.empty() ? std::string_view("127.0.0.1") : std::string_view(options.master_addr));
  environment.set("MASTER_PORT", master_port_);
  const int launcher_fd = store_end ? store_end.get() : store_ends_[index].get();
  environment.set("UNISONO_LAUNCHER_FD", launcher_fd);
  if (places_[index].restarts > 0) environment.set("UNISONO_NEWCOMER", places_[index].restarts);
  else environment.remove("UNISONO_NEWCOMER");  // of a launcher around this one
  records_[index] = std::make_shared<const base::FileDescriptor>(make_record(rank));
  if (!options.trace_folder.empty()) environment.set(recorder::trace_variable, options.trace_folder);
  if (*records_[index]) environment.set(recorder::record_variable, records_[index]->get());
  environment.set("UNISONO_JOB_ID", parts_.job_id);
  environment.set("UNISONO_ATTEMPT", number_);
  if (!options.backend.empty()) environment.set("UNISONO_BACKEND", options.backend);
  if (mpi_) mpi_->prepare(local_rank, plan);
  if (!environment.has("OMP_NUM_THREADS")) environment.set("OMP_NUM_THREADS", parts_.openmp_share);
  OutputMultiplexer::WritingEnds ends;
  if (options.output == OutputMode::prefixed) {
    ends = output_.open(local_rank);
    if (!ends.out_is_terminal) write_line_by_line(environment, ends.out.get(), parts_.task.path);
    // The variable tells whether a progress bar would be seen, also where the rank writes to a pipe.
    environment.set("UNISONO_TERMINAL", parts_.console.out().is_terminal() ? 1 : 0);
    plan.stdout_fd = ends.out.get();
    plan.stderr_fd = ends.err.get();
  }
  const base::FileDescriptor input = parts_.stdin_pump.open(rank);
  if (input) plan.stdin_fd = input.get();
  plan.launcher_fd = launcher_fd;
  plan.record_fd = records_[index]->get();
  if (options.binding == Binding::core) plan.cpu = parts_.cpus[index % parts_.cpus.size()];
  plan.descriptor_limit = parts_.descriptor_limit;
  plan.signals = parts_.signals;
  const std::vector<int> to_close = descriptors_to_close(local_rank);
  plan.close_in_function = to_close;
  children_[index] = start_child(parts_.task, plan, parts_.watchdog);
  ends_[index].pid = children_[index].pid;
  if (parts_.view != nullptr) parts_.view->add(rank, children_[index].pid, records_[index]);
}

base::FileDescriptor Attempt::make_record(int rank) const {
  const std::string& folder = parts_.options.trace_folder;
  if (folder.empty()) return recorder::make_record_file();
  // The launchers of several hosts each have their own identity of the job, and one name for it.
  const std::string name = fmt::format("{}.{}.{}", parts_.nodes != nullptr ? parts_.nodes->job_name() : parts_.job_id,
                                       ends_[static_cast<std::size_t>(rank - first_rank_)].name, number_);
  base::Opened made = recorder::make_trace_file(folder, name, parts_.options.environment);
  if (!made.fd) throw StartFailed(fmt::format("no trace of rank {} can be written into {}: {}", rank, folder, error_text(made.error)), 1);
  return std::move(made.fd);
}

std::vector<int> Attempt::descriptors_to_close(int local_rank) const {
  std::vector<int> all = output_.descriptors();
  for (std::size_t i = 0; i < store_ends_.size(); ++i) {
    if (i != static_cast<std::size_t>(local_rank)) all.push_back(store_ends_[i].get());
  }
  for (const auto& record : records_) {
    if (record && *record && record != records_[static_cast<std::size_t>(local_rank)]) all.push_back(record->get());
  }
  for (const auto& child : children_) {
    if (child.pidfd) all.push_back(child.pidfd.get());
  }
  all.insert(all.end(), server_ends_.begin(), server_ends_.end());
  all.push_back(parts_.watchdog.life_line());
  if (parts_.signals != nullptr) all.push_back(parts_.signals->fd());
  const std::vector<int> feeds = parts_.stdin_pump.descriptors();
  all.insert(all.end(), feeds.begin(), feeds.end());
  return all;
}

}  // namespace unisono::launcher
