// unisono status says what the ranks of a job do, and who is waited for. It reads the records of their calls, and does not disturb them.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/commands.h"
#include "help/usage.h"
#include "status/jobs.h"
#include "status/report.h"

namespace unisono::tools {
namespace {

struct StatusOptions {
  std::string job = {};
  std::string from = {};
  bool json = false;
  bool dump = false;
  bool stacks = false;
  bool once = false;
};

std::vector<JobFacts> look(const StatusOptions& options) {
  std::vector<JobFacts> jobs = options.from.empty() ? find_jobs() : read_jobs(options.from);
  if (options.from.empty()) add_other_hosts(jobs);
  if (!options.job.empty()) std::erase_if(jobs, [&](const JobFacts& job) { return job.name != options.job; });
  return jobs;
}

std::string none_text(const StatusOptions& options) {
  const std::string where = options.from.empty() ? "of this user runs on this host" : "is in " + options.from;
  return "no job " + (options.job.empty() ? "" : options.job + " ") + where + "\n";
}

void print(const std::vector<JobFacts>& jobs, const StatusOptions& options) {
  std::vector<std::vector<Stack>> stacks;
  for (const JobFacts& job : jobs) {
    if (options.stacks) stacks.push_back(stacks_of_late_ranks(job));
  }
  if (options.json) {
    std::cout << status_json(jobs, stacks, options.dump) << "\n";
    return;
  }
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    std::cout << status_text(jobs[i]);
    if (options.stacks) {
      for (const Stack& stack : stacks[i]) std::cout << stack_text(stack) << "\n";
    }
    if (options.dump) std::cout << dump_text(jobs[i]);
  }
}

int show_status(const StatusOptions& options) {
  std::vector<JobFacts> jobs = look(options);
  if (jobs.empty() && !options.json) {
    std::cerr << "unisono: " << none_text(options);
    return 1;
  }
  const bool is_shown_once = options.once || options.json || options.dump || options.stacks || !options.from.empty();
  if (is_shown_once || ::isatty(STDOUT_FILENO) != 1) {
    print(jobs, options);
    return 0;
  }
  watch(std::move(jobs), [&] { return look(options); });
  std::cout << none_text(options);
  return 0;
}

}  // namespace

void add_status(CLI::App& app) {
  const auto options = std::make_shared<StatusOptions>();
  CLI::App* command = add_command(app, "status");
  command->footer("unisono status [JOB] [--once] [--stacks] [--dump] [--json] [--from PATH]");
  command->add_option("JOB", options->job, "The job's name (all jobs)");
  command->add_flag("--once", options->once, "Print once, even on a terminal");
  command->add_flag("--stacks", options->stacks, "Show the stacks of the ranks that others wait for, by eu-stack or gdb, and py-spy");
  command->add_flag("--dump", options->dump, "Print the last calls of each rank as well");
  command->add_flag("--json", options->json, "Print JSON");
  offer(command->add_option("--from", options->from, "A file or folder of records that ranks have written (UNISONO_RECORD_DIR)"),
        {.kind = Values::Kind::folder});
  explain(command,
          {.paragraphs = {"Every rank keeps its last calls in memory that outlives it. `unisono status` reads the records of this user's jobs on "
                          "this host, with any launcher, and shows why a job does not go on. A job of several hosts that `unisono run` has started "
                          "is shown with the ranks of all hosts. On a terminal it does so every second, until it is interrupted or no job is left.",
                          "The ranks are not disturbed, stopped or asked. A rank that hangs or was stopped is shown like any other. Only `--stacks` "
                          "stops the ranks that others wait for, for a moment."},
           .examples = {{"unisono status", "Show all jobs of this user on this host."},
                        {"unisono status --stacks", "Show the stacks of the ranks that others wait for."},
                        {"unisono status --from records --dump", "Print the last calls of the ranks of a job that has failed."}},
           .exit_codes = {{"0", "A job was shown."}, {"1", "There is none."}, {"2", "Wrong use: an unknown option or value."}}});
  command->callback([options] {
    if (const int code = show_status(*options); code != 0) throw CLI::RuntimeError(code);
  });
}

}  // namespace unisono::tools
