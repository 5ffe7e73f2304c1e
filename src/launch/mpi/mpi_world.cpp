#include "launch/mpi/mpi_world.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "launch/process/program.h"

namespace unisono::launcher {
namespace {

/// Recognises "mpi", "MPI" and "cpu:mpi,cuda:nccl".
bool names_mpi(std::string text) {
  for (char& c : text) c = c == ':' || c == ',' ? ' ' : static_cast<char>(c | 0x20);
  return fmt::format(" {} ", text).find(" mpi ") != std::string::npos;
}

/// Returns where the ranks are. Hosts that call themselves alike are told apart by their numbers.
MpiPlaces places_of(const Hosts& among) {
  MpiPlaces places{.own = among.terms().node};
  const std::vector<JobHost> hosts = among.all();
  std::vector<std::string> names;
  for (const JobHost& host : hosts) names.push_back(host.where.substr(0, host.where.rfind(':')));  // without the process's number
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const bool is_unique = std::ranges::count(names, names[i]) == 1;
    places.hosts.push_back({.name = is_unique ? names[i] : fmt::format("{}-{}", names[i], i), .ranks = hosts[i].ranks});
  }
  return places;
}

}  // namespace

std::unique_ptr<MpiWorld> MpiWorld::make(const JobOptions& options, int attempt, const Hosts& hosts) {
  const std::string backend = options.backend.empty() ? options.environment.get("UNISONO_BACKEND").value_or("") : options.backend;
  if (!names_mpi(backend) || options.function) return nullptr;
  const std::string kind = options.environment.get("UNISONO_MPI").value_or("");
  if (!kind.empty() && kind != "openmpi" && kind != "mpich") throw StartFailed(fmt::format("UNISONO_MPI is \"{}\"; it is openmpi or mpich", kind), 1);
  std::unique_ptr<MpiWorld> world(new MpiWorld);
  world->places_ = places_of(hosts);
  world->exchange_ = hosts.make_exchange("mpi", attempt);
  MpiExchange exchange;
  if (world->exchange_) {
    exchange = [&among = *world->exchange_](const std::string& name, const std::vector<int>& others, std::string own, NodeExchange::Done done) {
      among.begin(name, others, std::move(own), std::move(done));
    };
  }
  const std::string job = fmt::format("unisono-{}-{}", hosts.terms().job_name, attempt);
  if (kind != "openmpi") world->pmi_ = std::make_unique<PmiServer>(world->places_, job, exchange);
  if (kind != "mpich") world->serve_openmpi(kind, job, exchange);
  return world;
}

void MpiWorld::serve_openmpi(const std::string& kind, const std::string& job, const MpiExchange& exchange) {
  if (kind.empty() && PmixHelper::program().empty()) return;
  try {
    pmix_ = std::make_unique<PmixHelper>(places_, job, exchange);
  } catch (const StartFailed& failed) {  // the helper of a wheel finds no PMIx on some machines, and MPICH's ranks need none
    if (!kind.empty()) throw;
    base::warn(std::string(failed.what()) + "; ranks of Open MPI will not find each other");
  }
}

void MpiWorld::prepare(int local_rank, ChildPlan& plan) {
  EnvironmentBlock& environment = plan.environment;
  if (pmi_) {
    plan.pmi_fd = pmi_->rank_end(local_rank);
    environment.set("PMI_FD", plan.pmi_fd);
    environment.set("PMI_RANK", places_.first_rank() + local_rank);
    environment.set("PMI_SIZE", places_.world_size());
    environment.set("MPI_LOCALRANKID", local_rank);
    environment.set("MPI_LOCALNRANKS", places_.ranks());
  }
  if (pmix_) {
    for (const auto& [name, value] : pmix_->variables(local_rank)) environment.set(name, value);
    // Open MPI 4 treats ranks as lone processes unless it recognises their launcher. This variable (of jsrun) stands for ranks that a launcher with
    // PMIx started directly.
    environment.set("JSM_JSRUN_PORT", 1);
  }
}

void MpiWorld::started() {
  if (pmi_) pmi_->started();
}

void MpiWorld::wait_for(PollSet& set) {
  if (pmi_) pmi_->wait_for(set);
  if (pmix_) pmix_->wait_for(set);
  if (exchange_) exchange_->wait_for(set);
}

}  // namespace unisono::launcher
