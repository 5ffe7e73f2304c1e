#include "mpi_jobs.h"

#include <unistd.h>

#include <filesystem>

#include "running_command.h"

namespace unisono::testing {
namespace {

bool is_run(Starter starter) { return starter == Starter::run_openmpi || starter == Starter::run_mpich; }

std::string mpirun(Starter starter) { return kind_of(starter) == "openmpi" ? OPENMPI_RUN : MPICH_RUN; }

// MPICH 4.2's mpirun often ends with 0 if all ranks fail at once. So each rank says its own failure.
constexpr const char* failure_said = "a rank has failed, code ";
constexpr const char* says_failure = R"("$@"; code=$?; [ $code = 0 ] || echo "a rank has failed, code $code" >&2; exit $code)";

}  // namespace

std::string kind_of(Starter starter) { return starter == Starter::mpirun_openmpi || starter == Starter::run_openmpi ? "openmpi" : "mpich"; }

std::string name_of(Starter starter) { return (is_run(starter) ? "unisono_run_" : "mpirun_") + kind_of(starter); }

std::string missing_for(Starter starter) {
  const std::string kind = kind_of(starter);
  if (std::string(UNISONO_MPI_KINDS).find(kind) == std::string::npos)
    return kind + " was not found when this was built (package lib" + kind + "-dev)";
  if (!is_run(starter)) return mpirun(starter).empty() ? "mpirun." + kind + " was not found" : "";
  const bool needs_pmix = starter == Starter::run_openmpi && !HAS_PMIX;
  return needs_pmix ? "this build has no unisono-pmix (package libpmix-dev)" : "";
}

Outcome run_ranks(Starter starter, int ranks, std::vector<std::string> program, std::vector<std::string> variables) {
  std::vector<std::string> words;
  // Variables of the test's own environment that tell of ranks and backends are not the job's.
  words = {"/usr/bin/env", "-u", "RANK", "-u", "WORLD_SIZE", "-u", "MASTER_ADDR", "-u", "MASTER_PORT", "-u", "UNISONO_BACKEND", "UNISONO_TIMEOUT=60"};
  words.insert(words.end(), variables.begin(), variables.end());
  if (is_run(starter)) {
    words.push_back("UNISONO_MPI=" + kind_of(starter));
    for (const auto& word : unisono_command({"run", "--backend", "mpi", "--grace", "5", "-n", std::to_string(ranks), "--"})) words.push_back(word);
  } else {
    words.push_back(mpirun(starter));
    if (kind_of(starter) == "openmpi") {
      if (::geteuid() == 0) words.emplace_back("--allow-run-as-root");
      words.emplace_back("--oversubscribe");
    }
    words.insert(words.end(), {"-n", std::to_string(ranks)});
    if (kind_of(starter) == "mpich") words.insert(words.end(), {"/bin/sh", "-c", says_failure, "sh"});
  }
  words.insert(words.end(), program.begin(), program.end());
  RunningCommand command(words);
  Outcome outcome;
  outcome.code = command.wait(std::chrono::seconds(120));
  outcome.out = command.out();
  outcome.err = command.err();
  if (outcome.code == 0 && outcome.err.find(failure_said) != std::string::npos) outcome.code = 1;
  outcome.fine = count(outcome.out, "fine");
  return outcome;
}

}  // namespace unisono::testing
