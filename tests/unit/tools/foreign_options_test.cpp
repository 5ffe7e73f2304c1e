// The table of what other launchers call otherwise: each of its rows.

#include "help/foreign_options.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/processors.h"
#include "base/variables.h"
#include "common/commands.h"
#include "common/machine.h"
#include "run/flags.h"
#include "unit/temporary_file.h"

namespace unisono::tools {
namespace {

using Words = std::vector<std::string>;

Words split(const std::string& text) {
  std::istringstream words(text);
  Words all;
  for (std::string word; words >> word;) all.push_back(word);
  return all;
}

std::string joined(const Words& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

/// The command `run`, without carrying anything out.
class RunCommand {
 public:
  RunCommand() { add_run_options(command_, flags_); }
  const CLI::App& command() const { return *command_; }
  /// Our words for these; behind "! " what is said against them.
  std::string ours(const std::string& typed) const {
    const OurWords found = in_our_words(*command_, split(typed));
    return found.objection.empty() ? joined(found.words) : "! " + found.objection;
  }

 private:
  CLI::App app_;
  RunFlags flags_;
  CLI::App* command_ = app_.add_subcommand("run");
};

/// What becomes of the first name of each row; "! …": the row's own sentence, behind what was typed.
const std::map<std::string, std::vector<std::pair<std::string, std::string>>> cases = {
    {"--np", {{"3", "--ranks=3"}}},
    {"--nproc-per-node", {{"3", "--ranks=3"}, {"3 --hosts a", "! …"}, {"3 -H a", "! …"}, {"3 -machinefile hosts", "! …"}}},
    {"-c", {{"2", "! …"}}},
    {"--cpus-per-task", {{"2", "! …"}}},
    {"-N", {{"2", "! …"}}},
    {"--nodes", {{"2", "! …"}}},
    {"-H", {{"a:2,b:2", "--hosts=a:2,b:2"}}},
    {"-w", {{"a,b", "! …"}}},
    {"-f", {{"hosts", "--hostfile=hosts"}}},
    {"--wd", {{"/a", "--wdir=/a"}}},
    {"--oversubscribe", {{"", ""}}},
    {"--nooversubscribe", {{"", "! …"}}},
    {"--bind-to",
     {{"core", "--bind=core"}, {"none", "--bind=none"}, {"l3cache", "--bind=l3"}, {"l3", "--bind=l3"}, {"numa", "--bind=numa"}, {"socket", "! …"}}},
    {"--cpu-bind", {{"cores", "--bind=core"}, {"none", "--bind=none"}, {"no", "--bind=none"}, {"ldoms", "--bind=numa"}, {"map_cpu:1", "! …"}}},
    {"--numa-binding", {{"node", "! …"}}},
    {"--map-by", {{"slot", ""}, {"core", ""}, {"ppr:2:node", "! …"}}},
    {"--report-bindings", {{"", "! …"}}},
    {"--mca", {{"btl tcp", "! …"}}},
    {"--env", {{"A b", "! …"}}},
    {"--envlist", {{"A,B", "! …"}}},
    {"--envall", {{"", "! …"}}},
    {"--standalone", {{"", ""}}},
    {"--rdzv-backend", {{"c10d", ""}, {"static", ""}, {"etcd-v2", "! …"}}},
    {"--rdzv-endpoint",
     {{"a:29400", "--master-addr=a --master-port=29400"},
      {"a", "--master-addr=a"},
      {"[fd00::1]:29400", "--master-addr=fd00::1 --master-port=29400"},
      {"[fd00::1]", "--master-addr=fd00::1"},
      {"fd00::1", "--master-addr=fd00::1"}}},
    {"--rdzv-id", {{"17", ""}}},
    {"--rdzv-conf", {{"timeout=3", "! …"}}},
    {"--monitor-interval", {{"1", ""}}},
    {"--local-addr", {{"10.0.0.1", "! …"}}},
    {"--iface", {{"eth0", "! …"}}},
    {"--start-method", {{"fork", "! …"}}},
    {"--role", {{"trainer", "! …"}}},
    {"--run-path", {{"", "! …"}}},
    {"--log-dir", {{"logs", "--logs=logs"}}},
    {"--tee", {{"3", "! …"}}},
    {"--output-filename", {{"out", "! …"}}},
    {"--tag-output", {{"", ""}}},
    {"--kill-on-bad-exit", {{"", ""}}},
    {"--time", {{"10", "! …"}}},
    {"--mpi", {{"pmix", "! …"}}},
    {"--launcher", {{"ssh", "! …"}}},
    {"--gpus", {{"2", "! …"}}},
    {"--multi-prog", {{"", "! …"}}},
    {"--verbose", {{"", "! …"}}},
    {"--quiet", {{"", "! …"}}},
};

TEST(ForeignOptions, EachNameOfEachRowBecomesOurWordsOrASentence) {
  const RunCommand run;
  std::size_t rows = 0;
  for (const ForeignOption& row : foreign_options()) {
    const Words names = split(std::string(row.names));
    const auto found = cases.find(names.front());
    if (found == cases.end()) {
      ADD_FAILURE() << "no case for " << names.front();
      continue;
    }
    ++rows;
    for (const auto& [values, wanted] : found->second) {
      for (const std::string& name : names) {
        const std::string ours = run.ours(name + " " + values);
        if (wanted != "! …") {
          EXPECT_EQ(ours, wanted) << name << " " << values;
        } else {
          EXPECT_TRUE(ours.starts_with("! " + name) && ours.ends_with(": " + std::string(row.instead))) << ours;
        }
      }
    }
  }
  EXPECT_EQ(rows, cases.size()) << "a case of no row";
}

TEST(ForeignOptions, NoNameIsInTwoRowsOrIsOurs) {
  const RunCommand run;
  Words all;
  for (const ForeignOption& row : foreign_options()) {
    for (const std::string& name : split(std::string(row.names))) {
      EXPECT_TRUE(name.starts_with("--") || name.size() == 2) << name;
      EXPECT_EQ(run.command().get_option_no_throw(name), nullptr) << name;
      all.push_back(name);
    }
  }
  std::ranges::sort(all);
  EXPECT_EQ(std::ranges::adjacent_find(all), all.end());
}

TEST(ForeignOptions, WhatIsNamedInTheirPlaceIsThere) {
  const RunCommand run;
  const auto variables = base::variables();
  for (const ForeignOption& row : foreign_options()) {
    if (!row.ours.empty()) {
      EXPECT_NE(run.command().get_option_no_throw(std::string(row.ours)), nullptr) << row.ours;
    }
    const bool is_always_true = row.fate != ForeignOption::Fate::other && row.fate != ForeignOption::Fate::per_host && row.words.empty();
    EXPECT_EQ(row.instead.empty(), is_always_true) << row.names;
    for (std::string word : split(std::string(row.instead))) {
      while (word.ends_with(',') || word.ends_with(';') || word.ends_with(')')) word.pop_back();
      if (word.starts_with('(')) word.erase(0, 1);
      const bool is_theirs = row.names.find(word) != std::string_view::npos;  // "as mpirun's -c"
      if (word.starts_with('-') && !is_theirs) {
        EXPECT_NE(run.command().get_option_no_throw(word), nullptr) << word;
      } else if (word.starts_with("UNISONO_")) {
        EXPECT_NE(std::ranges::find(variables, word.substr(0, word.find('=')), &base::Variable::name), variables.end()) << word;
      }
    }
  }
}

TEST(ForeignOptions, OneDashAndUnderscoresAndValuesInTheSameWordAreUnderstood) {
  const RunCommand run;
  EXPECT_EQ(run.ours("-np 3"), "--ranks=3");
  EXPECT_EQ(run.ours("--nproc_per_node=3"), "--ranks=3");
  EXPECT_EQ(run.ours("-hostfile hosts -bind-to=none"), "--hostfile hosts --bind=none");
  EXPECT_EQ(run.ours("--max_restarts=2"), "--max-restarts=2");
  EXPECT_EQ(run.ours("-Ha:2 -N2"), "! -N2: --hosts a:4,b:4 names the hosts (srun's -N), and how many ranks each gets (mpirun's -N)");
  EXPECT_EQ(run.ours("-Ha:2"), "--hosts=a:2");
  EXPECT_EQ(run.ours("-n4 -xA=b -h"), "-n4 -xA=b -h");
  EXPECT_EQ(run.ours("--grace -1 --bind core"), "--grace -1 --bind core");
  EXPECT_EQ(run.ours("--unknown_word --nnode"), "--unknown_word --nnode");
}

TEST(ForeignOptions, AValueThatIsMissingOrTooManyIsSaid) {
  const RunCommand run;
  EXPECT_EQ(run.ours("--bind-to"), "! --bind-to needs a value");
  EXPECT_EQ(run.ours("--standalone=1"), "! --standalone takes no value");
  EXPECT_EQ(run.ours("--bind-to=socket"), "! --bind-to socket: --bind takes core, l3, numa or none");
}

TEST(ForeignOptions, TheFirstOneThatIsNotUnderstoodIsNamed) {
  EXPECT_EQ(RunCommand().ours("-np 2 --role a --tee 3"), "! --role: ranks have numbers and no roles");
}

TEST(ForeignOptions, TorchrunsWordsForANumberOfRanksAreCounted) {
  const RunCommand run;
  const std::string cores = std::to_string(base::allowed_processors());
  EXPECT_EQ(run.ours("--nproc-per-node cpu"), "--ranks=" + cores);
  const int gpus = visible_gpus();
  EXPECT_EQ(run.ours("--nproc-per-node auto"), "--ranks=" + (gpus > 0 ? std::to_string(gpus) : cores));
  const std::string none = "! --nproc-per-node gpu: there is no GPU on this host, or none is visible";
  EXPECT_EQ(run.ours("--nproc-per-node gpu"), gpus == 0 ? none : "--ranks=" + std::to_string(gpus));
}

TEST(ForeignOptions, GpusAreThoseWithADeviceThatTheVariableShows) {
  const TemporaryFolder devices;
  EXPECT_EQ(visible_gpus(nullptr, devices.path()), 0);
  for (const char* name : {"nvidia0", "nvidia1", "nvidia2", "nvidiactl"}) std::ofstream(devices.file(name)) << "";
  EXPECT_EQ(visible_gpus(nullptr, devices.path()), 3);
  EXPECT_EQ(visible_gpus("2,0", devices.path()), 2);
  EXPECT_EQ(visible_gpus("1,-1,0", devices.path()), 1);
  EXPECT_EQ(visible_gpus("", devices.path()), 0);
  EXPECT_EQ(visible_gpus("0,1,2,3", devices.path()), 3);
}

TEST(ForeignOptions, OtherCommandsKnowOnlyTheNamesOfOptionsThatTheyHave) {
  CLI::App app;
  CLI::App* bench = app.add_subcommand("bench");
  int ranks = 0;
  bench->add_option("-n,--ranks", ranks);
  EXPECT_EQ(joined(in_our_words(*bench, split("all_reduce -np 3 --nproc_per_node=2")).words), "all_reduce --ranks=3 --ranks=2");
  EXPECT_EQ(joined(in_our_words(*bench, split("--oversubscribe -c 2 -H a")).words), "--oversubscribe -c 2 -H a");
}

TEST(ForeignOptions, OptionsEndWhereTheProgramBegins) {
  const RunCommand run;
  const auto end = [&](const std::string& typed) { return end_of_options(run.command(), split(typed)); };
  EXPECT_EQ(end("-np 2 ./app -np 3"), 2U);
  EXPECT_EQ(end("--mca btl tcp ./app"), 3U);
  EXPECT_EQ(end("--oversubscribe --bind-to=core -N2 ./app"), 3U);
  EXPECT_EQ(end("--standalone -m package.train --np 3"), 1U);
  EXPECT_EQ(end("-n 2 --module=package.train"), 2U);
  EXPECT_EQ(end("-n 2 -mpackage"), 2U);
  EXPECT_EQ(end("-n 2 -machinefile hosts ./app"), 4U);
  EXPECT_EQ(end("-n"), 2U);
}

}  // namespace
}  // namespace unisono::tools
