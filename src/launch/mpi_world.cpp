#include "launch/mpi_world.h"

#include <fmt/format.h>

#include "launch/program.h"

namespace unisono::launcher {
namespace {

/// Recognises "mpi", "MPI" and "cpu:mpi,cuda:nccl".
bool names_mpi(std::string text) {
  for (char& c : text) c = c == ':' || c == ',' ? ' ' : static_cast<char>(c | 0x20);
  return fmt::format(" {} ", text).find(" mpi ") != std::string::npos;
}

}  // namespace

std::unique_ptr<MpiWorld> MpiWorld::make(const JobOptions& options, const std::string& job_id, int attempt) {
  const std::string backend = options.backend.empty() ? options.environment.get("UNISONO_BACKEND").value_or("") : options.backend;
  if (!names_mpi(backend) || options.function) return nullptr;
  if (options.nnodes > 1) throw StartFailed("backend mpi on several hosts is started with mpirun, which makes them one MPI", 1);
  const std::string kind = options.environment.get("UNISONO_MPI").value_or("");
  if (!kind.empty() && kind != "openmpi" && kind != "mpich") throw StartFailed(fmt::format("UNISONO_MPI is \"{}\"; it is openmpi or mpich", kind), 1);
  std::unique_ptr<MpiWorld> world(new MpiWorld);
  world->ranks_ = options.ranks;
  const std::string job = fmt::format("unisono-{}-{}", job_id, attempt);
  if (kind != "openmpi") world->pmi_ = std::make_unique<PmiServer>(options.ranks, job);
  if (kind == "openmpi" || (kind != "mpich" && !PmixHelper::program().empty())) world->pmix_ = std::make_unique<PmixHelper>(options.ranks, job);
  return world;
}

void MpiWorld::prepare(int local_rank, ChildPlan& plan) {
  EnvironmentBlock& environment = plan.environment;
  if (pmi_) {
    plan.pmi_fd = pmi_->rank_end(local_rank);
    environment.set("PMI_FD", plan.pmi_fd);
    environment.set("PMI_RANK", local_rank);
    environment.set("PMI_SIZE", ranks_);
    environment.set("MPI_LOCALRANKID", local_rank);
    environment.set("MPI_LOCALNRANKS", ranks_);
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
}

}  // namespace unisono::launcher
