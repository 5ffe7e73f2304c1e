#include "launch/job/rank_starter.h"

#include <fmt/format.h>

#include <utility>

#include "base/socket.h"
#include "launch/output/output.h"
#include "launch/process/program.h"
#include "recorder/dump.h"
#include "recorder/recorder.h"
#include "recorder/trace_file.h"

namespace unisono::launcher {

bool asks_for_mpi(const JobOptions& options) {
  std::string names = options.backend.empty() ? options.environment.get("UNISONO_BACKEND").value_or("") : options.backend;
  for (char& c : names) c = c == ':' || c == ',' ? ' ' : static_cast<char>(c | 0x20);
  return fmt::format(" {} ", names).find(" mpi ") != std::string::npos;
}

RankStarter::RankStarter(const JobParts& parts, int attempt, OutputMultiplexer& output, RankStore& store, RankProcesses& processes, RankEnds& ends)
    : parts_(parts),
      attempt_(attempt),
      output_(output),
      store_(store),
      processes_(processes),
      ends_(ends),
      records_(static_cast<std::size_t>(parts.options.ranks)),
      master_port_(parts.terms().master_port) {
  // On several nodes the port belongs to the first node's rank 0, and that node's launcher reserves it. The ranks of a function meet through the
  // launcher, so a port that was given is left alone.
  if (parts_.options.hosts.nnodes == 1 && (!parts_.options.function || master_port_ == 0)) {
    port_.emplace(static_cast<std::uint16_t>(master_port_));
    master_port_ = port_->port();
  }
  parts_.stdin_pump.begin_attempt();
  if (parts_.view != nullptr) parts_.view->begin_attempt(attempt);
  if (asks_for_mpi(parts_.options) && !parts_.options.function) mpi_ = serve_mpi(parts_.options, attempt, parts_.hosts);
}

void RankStarter::start_all() {
  for (std::size_t i = 0; i < ends_.size(); ++i)
    start({.index = i, .name = ends_[i].name, .newcomer = parts_.terms().is_late ? 1 : 0, .store_fd = store_.rank_end(i)});
  if (mpi_) mpi_->started();
}

void RankStarter::start_newcomer(std::size_t index, const std::string& name, int number) {
  const int rank = ends_[index].rank;
  RankStore::Connection connection = RankStore::connect(rank);
  output_.close(static_cast<int>(index));
  start({.index = index, .name = name, .newcomer = number, .store_fd = connection.of_rank.get()});
  store_.adopt(rank, std::move(connection));
}

void RankStarter::lose(std::size_t index) {
  keep_record(index);
  processes_.kill(index);
}

void RankStarter::set_variables(const Order& order, EnvironmentBlock& environment) const {
  const JobOptions& options = parts_.options;
  environment.set("RANK", parts_.terms().first_rank + static_cast<int>(order.index));
  environment.set("WORLD_SIZE", parts_.terms().world_size);
  environment.set("LOCAL_RANK", options.ranks_before + static_cast<int>(order.index));
  environment.set("LOCAL_WORLD_SIZE", options.ranks_before + options.ranks);
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

void RankStarter::start(const Order& order) {
  const JobOptions& options = parts_.options;
  const int local_rank = static_cast<int>(order.index);
  const int rank = parts_.terms().first_rank + local_rank;
  processes_.make_room();
  ChildPlan plan{.environment = EnvironmentBlock(options.environment)};
  EnvironmentBlock& environment = plan.environment;
  set_variables(order, environment);
  const Record record = make_record(rank, order.name);
  if (*record) environment.set(recorder::record_variable, record->get());
  if (mpi_) mpi_->prepare(local_rank, plan);
  if (!environment.has("OMP_NUM_THREADS")) environment.set("OMP_NUM_THREADS", parts_.placement.threads);
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
  if (const auto& places = parts_.placement.processors; !places.empty()) plan.processors = places[order.index];
  plan.descriptor_limit = parts_.descriptor_limit;
  plan.signals = parts_.signals;
  processes_.put(order.index, start_child(parts_.task, plan, parts_.watchdog));  // from here on it is ended with the attempt, whatever fails
  const pid_t pid = processes_.pid(order.index);
  ends_.replace(order.index, order.name, pid);
  records_[order.index] = record;
  if (parts_.view != nullptr) parts_.view->add(rank, pid, record);
}

RankStarter::Record RankStarter::make_record(int rank, const std::string& name) const {
  const std::string& folder = parts_.options.trace_folder;
  if (folder.empty()) return std::make_shared<const base::FileDescriptor>(recorder::make_record_file());
  const std::string file = fmt::format("{}.{}.{}", parts_.terms().job_name, name, attempt_);
  base::Opened made = recorder::make_trace_file(folder, file);
  if (!made.fd) throw StartFailed(fmt::format("no trace of rank {} can be written into {}: {}", rank, folder, error_text(made.error)), 1);
  return std::make_shared<const base::FileDescriptor>(std::move(made.fd));
}

void RankStarter::note_ended(std::size_t index) const {
  if (const Record& record = records_[index]; record && *record) recorder::note_ended(record->get());
}

void RankStarter::keep_record(std::size_t index) const {
  const auto folder = parts_.options.environment.get(recorder::folder_variable);
  if (folder && records_[index] && *records_[index]) recorder::dump_ended(*records_[index], *folder);
}

std::vector<recorder::RankSeen> RankStarter::read_records() const {
  std::vector<recorder::RankSeen> seen;
  for (const Record& record : records_) {
    if (const auto reader = record && *record ? recorder::RecordReader::open(*record) : nullptr) seen.push_back(reader->read(0));
  }
  return seen;
}

void RankStarter::wait_for(PollSet& set) {
  if (mpi_) mpi_->wait_for(set);
}

}  // namespace unisono::launcher
