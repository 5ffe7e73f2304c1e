// unisono trace merges what the ranks of a job have written with `unisono run --trace`: for people on the terminal, for a browser, and for Perfetto.

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "common/commands.h"
#include "help/usage.h"
#include "common/text.h"
#include "trace/page.h"
#include "trace/totals.h"

namespace unisono::tools {
namespace {

struct TraceOptions {
  std::string folder = {};
  std::string job = {};
  std::string json = {};
  std::string html = {};
  std::vector<std::string> with = {};
};

void show_trace(const TraceOptions& options) {
  std::vector<ProfilerFile> profiles;
  for (const std::string& text : options.with) profiles.push_back(parse_profiler_file(text));
  JobTrace trace = open_traces(options.folder, options.job);
  const Merge merge(trace);
  const Totals totals = totals_of(trace, merge);
  const auto in_folder = [&](const std::string& given, const char* name) {
    return given.empty() ? (std::filesystem::path(options.folder) / name).string() : given;
  };
  const std::string html = in_folder(options.html, "trace.html"), json = in_folder(options.json, "trace.json");
  write_page(trace, merge, totals, profiles, html);
  write_chrome_trace(trace, merge, profiles, json);
  std::cout << trace_text(trace, totals) << "\n";
  std::cout << "  " << html << " is for a browser\n  " << json << " is for ui.perfetto.dev\n";
}

void add_trace(CLI::App& app) {
  const auto options = std::make_shared<TraceOptions>();
  CLI::App* command = add_command(app, "trace");
  command->footer("unisono trace FOLDER [--job JOB] [--html FILE] [--json FILE] [--with RANK=FILE]…");
  offer(command->add_option("FOLDER", options->folder, "The folder of `unisono run --trace`")->required(), {.kind = Values::Kind::folder});
  command->add_option("--job", options->job, "The job's name, if the folder has traces of several")->type_name("JOB");
  offer(command->add_option("--html", options->html, "The page for a browser (trace.html in the folder)"), {.kind = Values::Kind::file});
  offer(command->add_option("--json", options->json, "The file of events for ui.perfetto.dev (trace.json in the folder)"),
        {.kind = Values::Kind::file});
  offer(command
            ->add_option("--with", options->with, "Show the ranges that torch.profiler has recorded on a rank (export_chrome_trace) beside its calls")
            ->allow_extra_args(false),
        {.kind = Values::Kind::file})
      ->type_name("RANK=FILE");
  explain(
      command,
      {.paragraphs = {"Each rank of `unisono run --trace FOLDER` writes all its calls into a file. `unisono trace` puts them together, on one clock. "
                      "It prints how long each rank has computed, waited for others, and moved data, and for which rank the others have waited. It "
                      "writes a page with the timeline of all ranks, and events for Perfetto.",
                      "A rank waits from the beginning of its call until the last rank that it needs has begun the same call. The rest of the call "
                      "the data moves. Between calls the rank computes.",
                      "If the hosts of a job share no folder, put the files of all hosts into one folder first."},
       .examples = {{"unisono run -n 4 --trace traces -- ./app", "Run a program, and keep all calls of its ranks."},
                    {"unisono trace traces", "Show which ranks have waited for which others."},
                    {"unisono trace traces --with 0=profile.json", "Show the ranges of torch.profiler on rank 0 beside its calls."}},
       .exit_codes = {{"0", "The files were written."}, {"1", "They could not be written."}, {"2", "Wrong use, or a folder without traces."}}});
  command->callback([options] { show_trace(*options); });
}

}  // namespace
}  // namespace unisono::tools

int main(int argc, char** argv) { return unisono::tools::run_program({argv + 1, argv + argc}, unisono::tools::add_trace); }
