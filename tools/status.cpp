// unisono status says what the ranks of a job do, and who is waited for. It reads the records of their calls, and does not disturb them.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "commands.h"
#include "described.h"
#include "recorder/ticks.h"
#include "status/jobs.h"
#include "status/report.h"
#include "usage.h"

namespace unisono::tools {
namespace {

struct StatusOptions {
  std::string job = {};
  bool json = false;
  bool dump = false;
};

int show_status(const StatusOptions& options) {
  std::vector<JobFacts> jobs = find_jobs();
  if (!options.job.empty()) std::erase_if(jobs, [&](const JobFacts& job) { return job.name != options.job; });
  if (jobs.empty() && !options.json) {
    std::cerr << (options.job.empty() ? "unisono: no job of this user runs on this host\n"
                                      : fmt::format("unisono: no job {} of this user runs on this host\n", options.job));
    return 1;
  }
  const std::uint64_t now = recorder::steady_ns();
  if (options.json) {
    std::cout << status_json(jobs, now, options.dump) << "\n";
    return 0;
  }
  for (const JobFacts& job : jobs) std::cout << status_text(job, now) << (options.dump ? dump_text(job, now) : std::string());
  return 0;
}

}  // namespace

void add_status(CLI::App& app) {
  const auto options = std::make_shared<StatusOptions>();
  CLI::App* command = app.add_subcommand("status", "Show what the ranks of a job do, and who is waited for");
  command->footer("unisono status [JOB] [--dump] [--json]");
  command->add_option("JOB", options->job, "The job's name; all of them where it is left out");
  command->add_flag("--dump", options->dump, "Print the last calls of each rank as well");
  command->add_flag("--json", options->json, "Print JSON");
  explain(command,
          {.paragraphs = {"Every rank keeps its last calls in memory that outlives it. `unisono status` reads the records of this user's jobs on this "
                          "host, whoever started them, and says what stands between a job and its next step.",
                          "The ranks are not disturbed, stopped or asked. A rank that hangs or was stopped is shown like any other."},
           .examples = {{"unisono status", "Show all jobs of this user on this host."}, {"unisono status --dump", "Print the last calls of each rank."}},
           .exit_codes = {{"0", "A job was shown."}, {"1", "There is none."}, {"2", "Wrong use: an unknown option or value."}}});
  command->callback([options] {
    if (const int code = show_status(*options); code != 0) throw CLI::RuntimeError(code);
  });
}

}  // namespace unisono::tools
