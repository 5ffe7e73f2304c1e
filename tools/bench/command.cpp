// unisono bench measures collectives beside the roofline and the peers, all interleaved in the same processes, and verifies every result.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <csignal>
#include <fstream>
#include <iostream>
#include <memory>
#include <set>
#include <tuple>

#include "base/processors.h"
#include "bench/rows.h"
#include "bench/measure.h"
#include "bench/options.h"
#include "bench/set.h"
#include "bench/report.h"
#include "common/commands.h"
#include "help/usage.h"
#include "engines/registry.h"
#include "launch/process/program.h"
#include "common/machine.h"
#include "common/text.h"
#include "unisono/error.h"

namespace unisono::tools {

namespace {

constexpr int most_ranks_here = 1024;

/// A file for results, opened before anything is measured, so that a wrong name costs no measurement.
class ResultFile {
 public:
  explicit ResultFile(const std::string& path) : path_(path) {
    if (path_.empty()) return;
    file_.open(path_);
    if (!file_) throw InvalidArgument("cannot write " + path_);
  }
  bool is_wanted() const { return file_.is_open(); }
  void write(const std::string& text) {
    file_ << text;
    file_.close();
    if (!file_) throw Error("cannot write " + path_);
  }

 private:
  std::string path_;
  std::ofstream file_;
};

/// What is made of the rows, wherever they come from.
class Conclusion {
 public:
  /// Opens the files.
  Conclusion(const BenchReportOptions& options, const std::optional<BenchBaseline>& baseline)
      : options_(options), baseline_(baseline), json_(options.json), plot_(options.plot), ratio_plot_(options.ratio_plot) {}

  void print_and_write(const std::vector<BenchRow>& rows) {
    if (!rows.empty()) {
      std::cout << "\n" << summary_of(rows) << std::endl;
      if (baseline_) std::cout << "\n" << baseline_->changes_in(rows) << std::endl;
      if (plot_.is_wanted()) plot_.write(plot_of(rows));
      if (ratio_plot_.is_wanted()) ratio_plot_.write(ratio_plot_of(rows));
    }
    if (json_.is_wanted()) json_.write(to_json(rows).dump(1) + "\n");
  }
  /// Returns the exit code of a measurement that was not interrupted.
  int judge(const std::vector<BenchRow>& rows) const {
    if (!options_.fail_below) return 0;
    const std::string below = below_limit(cells_of(rows), *options_.fail_below);
    if (!below.empty()) std::cerr << wrap("unisono bench: " + below, 2) << std::endl;
    return below.empty() ? 0 : 1;
  }

 private:
  const BenchReportOptions& options_;
  const std::optional<BenchBaseline>& baseline_;
  ResultFile json_, plot_, ratio_plot_;
};

/// Reads the results of earlier runs, of the operations that are named. Throws InvalidArgument for two of the same, which could not be told apart.
std::vector<BenchRow> read_saved(const BenchOptions& options) {
  const bool of_all = options.operations.empty() || std::ranges::find(options.operations, all_operations) != options.operations.end();
  std::vector<BenchRow> rows;
  std::set<std::tuple<std::string, BenchConditions, bench::Operation, std::string, std::size_t>> seen;
  for (const std::string& path : options.report.from) {
    for (BenchRow& row : read_rows(path)) {
      if (!of_all && std::ranges::find(options.operations, bench::to_string(row.operation)) == options.operations.end()) continue;
      if (!seen.emplace(row.set, row.conditions, row.operation, row.impl, row.bytes).second)
        throw InvalidArgument(fmt::format("{} has a second result of {}: {}, {}, set {}", path, row.impl, cell_text(row.operation, row.bytes),
                                          text_of(row.conditions), row.set));
      rows.push_back(std::move(row));
    }
  }
  if (rows.empty()) throw InvalidArgument("--from has no result of these operations");
  return rows;
}

/// Reports on results of earlier runs.
int report_saved(const BenchOptions& options, const std::optional<BenchBaseline>& baseline) {
  const std::vector<BenchRow> rows = read_saved(options);
  if (baseline) baseline->check_has(rows.front().conditions, {rows.front().set});
  Conclusion conclusion(options.report, baseline);
  const std::size_t cache = private_cache_bytes();
  bool first = true;
  for (const auto& group : groups_of(rows)) {
    const auto ours = std::ranges::find_if(group, [](const BenchRow& row) { return row.impl.starts_with("unisono"); });
    const std::string backend = ours == group.end() ? std::string() : ", backend " + ours->backend;
    std::cout << (first ? "" : "\n") << wrap(fmt::format("set {}: {}{}", group.front().set, text_of(group.front().conditions), backend), 2) << "\n";
    print_table(std::cout, group, cache);
    first = false;
  }
  conclusion.print_and_write(rows);
  return conclusion.judge(rows);
}

int measure_and_report(const BenchOptions& options, const std::optional<BenchBaseline>& baseline) {
  const bench::Plan plan = plan_of(options);
  if (options.report.fail_below && options.peers.empty())
    throw InvalidArgument("--fail-below compares with other libraries, and --peers names none", {.hint = "for example --peers openmpi"});
  if (!options.report.ratio_plot.empty() && options.peers.empty())
    throw InvalidArgument("--plot-ratios shows other libraries, and --peers names none", {.hint = "for example --peers openmpi"});
  constexpr std::array ending_signals = {SIGINT, SIGTERM, SIGHUP};
  launcher::SignalScope signals(ending_signals);
  const launcher::Watchdog watchdog("bench");
  try {
    const std::vector<BenchSetup> setups = bench_setups(options.peers, plan.ranks, plan.ranks > base::allowed_processors());
    std::vector<std::string> sets;
    for (const BenchSetup& setup : setups) sets.push_back(setup.name);
    if (baseline) baseline->check_has(conditions_of(options, plan), sets);
    Conclusion conclusion(options.report, baseline);
    const BenchMeasured measured = measure(options, plan, setups, signals, watchdog);
    conclusion.print_and_write(measured.rows);
    return measured.interrupted ? launcher::exit_signaled + *measured.interrupted : conclusion.judge(measured.rows);
  } catch (const BenchInterrupted& interrupted) {  // while the ranks were being started
    std::cerr << "unisono bench: ended by " << launcher::signal_name(interrupted.signal) << std::endl;
    return launcher::exit_signaled + interrupted.signal;
  }
}

int run(BenchOptions& options) {
  try {
    sort_words(options);
    // Read before any file is opened for writing: the new results may go where the old ones are.
    const std::optional<BenchBaseline> baseline =
        options.report.baseline.empty() ? std::nullopt : std::optional<BenchBaseline>(options.report.baseline);
    return options.report.from.empty() ? measure_and_report(options, baseline) : report_saved(options, baseline);
  } catch (const InvalidArgument&) {
    throw;  // wrong use, answered with the usage like every other
  } catch (const Unsupported& error) {
    std::cerr << wrap(std::string("unisono bench: ") + error.what(), 2) << std::endl;
    return 2;
  } catch (const std::exception& error) {
    std::cerr << wrap(std::string("unisono bench: ") + error.what(), 2) << std::endl;
    return 1;
  }
}

}  // namespace

namespace {

std::vector<std::string> operation_names() {
  std::vector<std::string> names{std::string(all_operations)};
  for (const bench::Operation operation : bench::operations()) names.emplace_back(bench::to_string(operation));
  return names;
}

std::vector<std::string> as_strings(std::span<const std::string_view> words) { return {words.begin(), words.end()}; }

/// Adds what is measured.
void add_subject(CLI::App& command, BenchOptions& options) {
  command.option_defaults()->group("What is measured");
  offer(command.add_option("OP", options.operations,
                           "The operations to measure (all_reduce, broadcast, all_to_all, all_gather_v, ping_pong, …); all: every one"),
        {.words = operation_names});
  command.add_option("-n,--ranks", options.ranks, "Processes to start; if not given, one per core, or one per device")
      ->check(whole_number(1, most_ranks_here))
      ->type_name("N");
  command.add_option("--hosts", options.hosts, "Let unisono treat the ranks as processes of N hosts: its engine for networks works between them (1)")
      ->check(whole_number(1, most_ranks_here))
      ->type_name("N");
  offer(
      command.add_option("--sizes", options.sizes, "Bytes of a rank's larger buffer, such as 8,1KiB,64MiB")->delimiter(',')->allow_extra_args(false),
      {.words = [] { return BenchOptions().sizes; }, .separators = ","})
      ->type_name("SIZE,…");
  offer(command.add_option("--dtype", options.dtype, "f32, f64, f16, bf16, i8, u8, i32 or i64")->capture_default_str(),
        {.words = [] { return as_strings(bench::dtype_names()); }})
      ->type_name("DTYPE");
  only(command.add_option("--device", options.device, "host: ordinary memory; cuda: memory of CUDA devices, for the collectives"), {"host", "cuda"})
      ->capture_default_str();
  only(command.add_option("--buffers", options.buffers,
                          "private: ordinary memory; shared: unisono's shared_resource(), which the other ranks can reach"),
       {"private", "shared"})
      ->capture_default_str();
  only(command.add_option("--data", options.data,
                          "static: buffers stay as they are; varying: inputs are rewritten before each call; touch: varying, and reading the output "
                          "is part of the time"),
       {"static", "varying", "touch"})
      ->capture_default_str();
  offer(command.add_option("--backend", options.backend, "Backend of unisono: native, tcp, gloo, mpi, nccl, …")->capture_default_str(),
        {.words = engines::known_names})
      ->type_name("NAME");
  offer(command.add_option("--peers", options.peers, "Other libraries to measure as well: openmpi, mpich, gloo, ucx, ./folders with an MPI, or nccl")
            ->delimiter(',')
            ->allow_extra_args(false),
        {.words = [] { return as_strings(peer_names()); }, .separators = ","})
      ->type_name("PEER,…");
}

/// Adds how it is measured.
void add_manner(CLI::App& command, BenchOptions& options) {
  command.option_defaults()->group("Results");
  offer(command.add_option("--json", options.report.json, "Write the results to this file"), {.kind = Values::Kind::file});
  offer(command.add_option("--plot", options.report.plot, "Draw time and bandwidth over size into this file (SVG)"), {.kind = Values::Kind::file});
  offer(command.add_option("--plot-ratios", options.report.ratio_plot, "Draw the peers' times by unisono's over size into this file (SVG)"),
        {.kind = Values::Kind::file});
  offer(command.add_option("--baseline", options.report.baseline, "Print what has changed since these results of --json"),
        {.kind = Values::Kind::file});
  command
      .add_option("--fail-below", options.report.fail_below,
                  "Exit code 1 if the fastest peer's time divided by unisono's is less than RATIO in any cell")
      ->check(number(0.01, 1e6))
      ->type_name("RATIO");
  offer(command.add_option("--from", options.report.from, "Measure nothing, and report on these results of --json")
            ->delimiter(',')
            ->allow_extra_args(false),
        {.kind = Values::Kind::file});
  command.option_defaults()->group("How it is measured");
  only(command.add_option("--compare", options.compare, "Measure with the comparison of the ranks' calls (on), without it (off), or both"),
       {"on", "off", "both"})
      ->capture_default_str();
  only(command.add_option("--record", options.record, "Measure with the record of the calls (on), without it (off), or both"), {"on", "off", "both"})
      ->capture_default_str();
  only(command.add_option("--bind", options.bind, "core: bind each rank to a core, if there are enough"), {"core", "none"})->capture_default_str();
  command.add_option("--rounds", options.rounds, "Rounds to interleave (11)")->check(whole_number(1, 10000))->type_name("N");
  command.add_option("--seconds", options.seconds, "Start no further round after this time")->check(number(0.01, 1e6))->type_name("SECONDS");
  command.add_option("--seed", options.seed, "The seed of the order of the libraries and of the data")->capture_default_str()->type_name("N");
  command.add_option("--timeout", options.timeout_seconds, "How long to wait for each answer of the ranks")
      ->check(number(0.01, 1e6))
      ->capture_default_str()
      ->type_name("SECONDS");
  command.add_flag("--quick", options.quick, "Few and short rounds: a check, not a measurement");
  command.add_flag("--explain", options.report.explain, "Also count system calls, wake-ups, copies and waits of a call on each rank");
  command.add_flag("--in-place", options.in_place, "Measure all_reduce in place, instead of from one buffer into another");
}

void explain_bench(const CLI::App* command) {
  explain(
      command,
      {.paragraphs =
           {"The processes of each library are started once. They measure in turns, in rounds of a random order, so that all of "
            "them see the same machine. Every result is verified; a wrong one ends the run, and its row is never written.",
            "The table shows the median and the 99th percentile of a call's time, and the bytes moved in a second. For each other library it shows "
            "the time as a multiple of unisono's, with the range of the rounds. The roofline is a copy of the same number of bytes on each rank. "
            "Ctrl-C ends the run, and the table shows the results so far. The document design/performance.md of unisono tells how to read it.",
            "With --device cuda the calls of all libraries are enqueued in rows. The time of a call is that of a row, to the end of the device's "
            "work, divided by its calls.",
            "The summary counts cells: an operation at one size. In each, the fastest of the peers stands for all of them."},
       .examples = {{"unisono bench", "all_reduce, on one rank per core."},
                    {"unisono bench all_reduce broadcast -n 4 --sizes 8,64KiB,16MiB", "Two operations at three sizes."},
                    {"unisono bench --peers openmpi,mpich,gloo --json results.json",
                     "Beside other libraries, with the results in a file for programs."},
                    {"unisono bench --explain broadcast 1KiB --hosts 2", "How each rank spends the time of a call."},
                    {"unisono bench --peers gloo,/opt/openmpi-5,./mpich-5", "Beside the MPIs in these folders."},
                    {"unisono bench --peers openmpi --fail-below 1.0 --baseline results.json",
                     "Fails if Open MPI is faster, and prints what has changed."},
                    {"unisono bench --device cuda --backend nccl --peers nccl", "In memory of devices, beside NCCL called directly."},
                    {"unisono bench --from private.json,shared.json --plot both.svg", "A picture of two runs."},
                    {"unisono bench all_reduce --from results.json --plot-ratios ratios.svg", "A picture of the ratios, for a page of 80 mm."}},
       .exit_codes = {{"0", "Everything was measured, and every result was right."},
                      {"1", "A result was wrong, the ranks could not be started or did not answer, or a cell is below --fail-below."},
                      {"2", "Wrong use, or a backend that cannot do this."},
                      {"128+S", "Signal S ended the run; the table was printed."}}});
}

void add_bench(CLI::App& app) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* command = add_command(app, "bench");
  command->footer("unisono bench [OP…] [-n RANKS] [--sizes 8,1MiB] [--peers gloo] [options]");
  add_subject(*command, *options);
  add_manner(*command, *options);
  explain_bench(command);
  command->callback([options] {
    if (const int code = run(*options); code != 0) throw CLI::RuntimeError(code);
  });
}

}  // namespace
}  // namespace unisono::tools

int main(int argc, char** argv) { return unisono::tools::run_program({argv + 1, argv + argc}, unisono::tools::add_bench); }
