// unisono bench measures collectives beside the roofline and the peers, all interleaved in the same processes, and verifies every result.

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <csignal>
#include <fstream>
#include <iostream>
#include <memory>

#include "engines/registry.h"
#include "bench_options.h"
#include "sizes.h"
#include "bench_peers.h"
#include "bench_report.h"
#include "bench_set.h"
#include "commands.h"
#include "described.h"
#include "base/deadline.h"
#include "base/processors.h"
#include "harness/plan.h"
#include "launch/program.h"
#include "machine.h"
#include "text.h"
#include "unisono/error.h"
#include "usage.h"

namespace unisono::tools {

namespace {

constexpr int usual_rounds = 11;
constexpr int quick_rounds = 3;
constexpr int most_ranks_here = 1024;

template <class T>
void keep_first(std::vector<T>& list) {
  std::vector<T> once;
  for (const T& entry : list)
    if (std::ranges::find(once, entry) == once.end()) once.push_back(entry);
  list = std::move(once);
}

/// Checks everything that can be checked before any process is started.
bench::Plan plan_of(const BenchOptions& options) {
  bench::Plan plan;
  for (const std::string& name : options.operations) {
    plan.operations.push_back(*bench::parse_operation(name));  // sort_words has refused unknown names
  }
  keep_first(plan.operations);
  for (const std::string& size : options.sizes) plan.sizes.push_back(parse_bytes(size));
  std::ranges::sort(plan.sizes);
  keep_first(plan.sizes);
  plan.dtype = bench::parse_dtype(options.dtype);
  plan.ranks = options.ranks > 0 ? options.ranks : std::max(2, base::allowed_processors());
  plan.hosts = options.hosts;
  if (plan.hosts > plan.ranks) throw InvalidArgument("--hosts asks for more hosts than there are ranks");
  plan.shared_buffers = options.buffers == "shared";
  if (options.data == "varying") plan.data = bench::DataMode::varying;
  else if (options.data == "touch") plan.data = bench::DataMode::touch;
  plan.backend = options.backend;
  if (const std::string name = engines::host_backend(plan.backend); name != "auto")
    engines::maker(name);  // throws for an engine that cannot run here
  plan.in_place = options.in_place;
  if (plan.in_place && (plan.operations.size() != 1 || plan.operations.front() != bench::Operation::all_reduce))
    throw InvalidArgument("--in-place goes with all_reduce alone");
  if (plan.ranks == 1 && std::ranges::find(plan.operations, bench::Operation::send_recv) != plan.operations.end())
    throw InvalidArgument("send_recv needs at least two ranks");
  plan.bind = options.bind == "core";
  plan.seed = options.seed;
  constexpr std::chrono::microseconds quick_block_time{500}, usual_block_time{3000};
  plan.block_time = options.quick ? quick_block_time : usual_block_time;
  plan.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(options.timeout_seconds * 1000));
  return plan;
}

bench::Plan plan_of_set(bench::Plan plan, const BenchSetup& setup, const BenchOptions& options) {
  if (options.compare != "off") plan.candidates.emplace_back("unisono");
  if (options.compare != "on") plan.candidates.emplace_back("unisono-unchecked");
  plan.candidates.insert(plan.candidates.end(), setup.peers.begin(), setup.peers.end());
  return plan;
}

void describe_run(const BenchResults& results, const BenchFacts& facts, const BenchSetup& setup, int wanted_rounds) {
  std::string peers;
  for (const std::string& peer : setup.peers) peers.append(", ").append(setup.versions.at(peer));
  const double barrier = results.barrier_ns(setup.name).value_or(0);
  constexpr double near_cores_ns = 100, distant_cores_ns = 150;  // measured on virtual machines, where both states occur
  const std::string_view label = barrier < near_cores_ns      ? "A, near cores"
                                 : barrier > distant_cores_ns ? "B, distant or shared cores"
                                                              : "between A and B";
  const std::string hosts = facts.hosts > 1 ? fmt::format(" as of {} hosts", facts.hosts) : std::string();
  const std::string set =
      fmt::format("set {}: {} rank{}{}, {}, {} buffers, {} data, backend {}{}", setup.name, facts.ranks, facts.ranks == 1 ? "" : "s", hosts,
                  facts.dtype, facts.buffers, facts.data, facts.backends.at(setup.name), peers);
  const std::size_t done = results.rounds(setup.name);
  const std::string rounds = done == static_cast<std::size_t>(wanted_rounds) ? fmt::format("{}", done) : fmt::format("{} of {}", done, wanted_rounds);
  std::string state = fmt::format("flag barrier {:.0f} ns (label {}), {} round{}", barrier, label, rounds, wanted_rounds == 1 ? "" : "s");
  if (const std::size_t dropped = results.dropped(setup.name); dropped != 0) state += fmt::format(", {} left out for stolen time", dropped);
  std::cout << "\n" << wrap(set, 2) << "\n" << wrap(state, 2) << "\n";
}

/// Prints which operations a peer lacks, so that a missing row is explained.
void name_gaps(const std::vector<BenchRow>& rows, const bench::Plan& plan, const std::vector<BenchSetup>& setups) {
  for (const BenchSetup& setup : setups)
    for (const std::string& peer : setup.peers) {
      std::string gaps;
      for (const bench::Operation operation : plan.operations) {
        const auto is_it = [&](const BenchRow& row) { return row.set == setup.name && row.impl == peer && row.operation == operation; };
        if (std::ranges::none_of(rows, is_it)) gaps.append(gaps.empty() ? "" : ", ").append(bench::to_string(operation));
      }
      if (!gaps.empty()) std::cerr << wrap(fmt::format("unisono bench: {} has no {} of {}", peer, gaps, unisono::to_string(plan.dtype)), 2) << "\n";
    }
}

void measure_rounds(const std::vector<std::unique_ptr<BenchSet>>& sets, const BenchOptions& options, int rounds, BenchResults& results) {
  const base::Deadline budget(std::chrono::milliseconds(static_cast<std::int64_t>(options.seconds.value_or(0) * 1000)));
  const bool show_progress = ::isatty(STDERR_FILENO) == 1;
  const auto clear = [&] {
    if (show_progress) std::cerr << "\r\033[K" << std::flush;
  };
  try {
    for (int done = 0; done < rounds && !(options.seconds && budget.passed() && done >= quick_rounds); ++done) {
      for (const auto& set : sets) {
        if (show_progress) std::cerr << fmt::format("\rround {} of {}, {} ", done + 1, rounds, set->setup().name) << std::flush;
        const ProcessorTime before = processor_time();
        const nlohmann::json event = set->round(done);
        const ProcessorTime after = processor_time();
        results.add(set->setup().name, event, stolen_share(before, after));
      }
    }
  } catch (...) {
    clear();
    throw;
  }
  clear();
}

void print_results(const BenchResults& results, const std::vector<BenchRow>& rows, const BenchFacts& facts, const std::vector<BenchSetup>& setups,
                   int rounds) {
  std::cout << describe_machine();
  const std::size_t cache = private_cache_bytes();
  for (const BenchSetup& setup : setups) {
    if (results.rounds(setup.name) == 0) continue;
    describe_run(results, facts, setup, rounds);
    print_table(std::cout, rows, facts, setup.name, cache);
  }
  std::cout << "\n" << summary_of(rows, facts) << std::endl;
}

/// Returns the exit code.
int measure(const BenchOptions& options, const bench::Plan& plan, launcher::SignalScope& signals, const launcher::Watchdog& watchdog) {
  const base::Environment& environment = base::Environment::process();
  const std::vector<BenchSetup> setups =
      bench_setups(options.peers, plan.ranks, plan.ranks > base::allowed_processors(), environment, signals, watchdog);
  std::ofstream file;
  if (!options.json.empty()) {
    file.open(options.json);
    if (!file) throw InvalidArgument("cannot write " + options.json);
  }

  const TemporaryFolder folder;
  std::vector<std::unique_ptr<BenchSet>> sets;
  for (const BenchSetup& setup : setups)
    sets.push_back(std::make_unique<BenchSet>(setup, plan_of_set(plan, setup, options), folder.path() / setup.name, environment, signals, watchdog));
  BenchResults results;
  BenchFacts facts{.ranks = plan.ranks,
                   .hosts = plan.hosts,
                   .dtype = std::string(bench::short_name(plan.dtype)),
                   .buffers = options.buffers,
                   .data = std::string(to_string(plan.data))};
  for (const auto& set : sets) facts.backends[set->setup().name] = set->backend();

  const int rounds = options.rounds.value_or(options.quick ? quick_rounds : usual_rounds);
  std::optional<int> interrupted;
  try {
    measure_rounds(sets, options, rounds, results);
    for (const auto& set : sets) set->finish();
  } catch (const BenchInterrupted& by) {
    interrupted = by.signal;
  }
  sets.clear();  // ends the processes, so that their output does not disturb the report
  if (interrupted) std::cerr << "unisono bench: ended by " << launcher::signal_name(*interrupted) << std::endl;

  const std::vector<BenchRow> rows = results.rows();
  if (!rows.empty()) print_results(results, rows, facts, setups, rounds);
  if (!interrupted) name_gaps(rows, plan, setups);
  if (file.is_open()) {
    file << to_json(rows, facts).dump(1) << "\n";
    file.close();
    if (!file) throw Error("cannot write " + options.json);
  }
  return interrupted ? launcher::exit_signaled + *interrupted : 0;
}

int run(BenchOptions& options) {
  try {
    sort_words(options);
    const bench::Plan plan = plan_of(options);
    constexpr std::array ending_signals = {SIGINT, SIGTERM, SIGHUP};
    launcher::SignalScope signals(ending_signals);
    const launcher::Watchdog watchdog("bench");
    try {
      return measure(options, plan, signals, watchdog);
    } catch (const BenchInterrupted& interrupted) {  // while the ranks were being started
      std::cerr << "unisono bench: ended by " << launcher::signal_name(interrupted.signal) << std::endl;
      return launcher::exit_signaled + interrupted.signal;
    }
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
  std::vector<std::string> names;
  for (const bench::Operation operation : bench::operations()) names.emplace_back(bench::to_string(operation));
  return names;
}

std::vector<std::string> as_strings(std::span<const std::string_view> words) { return {words.begin(), words.end()}; }

/// Adds what is measured.
void add_subject(CLI::App& command, BenchOptions& options) {
  offer(command.add_option("OP", options.operations, "What to measure (all_reduce, broadcast, reduce, all_gather, reduce_scatter, all_to_all, …)"),
        {.words = operation_names});
  command.add_option("-n,--ranks", options.ranks, "Processes to start; one per core where not given")->check(whole_number(1, most_ranks_here));
  command.add_option("--hosts", options.hosts, "Let unisono take the ranks for processes of so many hosts: its engine works between them (1)")
      ->check(whole_number(1, most_ranks_here));
  offer(command.add_option("--sizes", options.sizes, "Bytes of a rank's larger buffer, as 8,1KiB,64MiB")->delimiter(',')->allow_extra_args(false),
        {.words = [] { return BenchOptions().sizes; }, .separators = ","});
  offer(command.add_option("--dtype", options.dtype, "f32, f64, f16, bf16, i8, u8, i32 or i64")->capture_default_str(),
        {.words = [] { return as_strings(bench::dtype_names()); }});
  only(command.add_option("--buffers", options.buffers,
                          "private: ordinary memory; shared: unisono's shared_resource(), which the other ranks can reach"),
       {"private", "shared"})
      ->capture_default_str();
  only(command.add_option(
           "--data", options.data,
           "static: unmodified buffers; varying: inputs rewritten before each call; touch: varying, and reading the output is part of the time"),
       {"static", "varying", "touch"})
      ->capture_default_str();
  offer(command.add_option("--backend", options.backend, "Backend of unisono: native, tcp, gloo, mpi, …")->capture_default_str(),
        {.words = engines::known_names});
  offer(command.add_option("--peers", options.peers, "Other libraries to measure as well: openmpi, mpich, gloo, ucx")
            ->delimiter(',')
            ->allow_extra_args(false),
        {.words = [] { return as_strings(peer_names()); }, .separators = ","});
}

/// Adds how it is measured.
void add_manner(CLI::App& command, BenchOptions& options) {
  offer(command.add_option("--json", options.json, "Write the results to this file"), {.kind = Values::Kind::file});
  only(command.add_option("--compare", options.compare, "With the comparison of the ranks' calls, without, or both"), {"on", "off", "both"})
      ->capture_default_str();
  only(command.add_option("--bind", options.bind, "Bind each rank to a core where there are enough"), {"core", "none"})->capture_default_str();
  command.add_option("--rounds", options.rounds, "Rounds to interleave (11)")->check(whole_number(1, 10000));
  command.add_option("--seconds", options.seconds, "Start no further round after this time")->check(number(0.01, 1e6));
  command.add_option("--seed", options.seed, "Of the order of the candidates and of the data")->capture_default_str();
  command.add_option("--timeout", options.timeout_seconds, "Seconds to wait for anything")->check(number(0.01, 1e6))->capture_default_str();
  command.add_flag("--quick", options.quick, "Few and short rounds: a check, not a measurement");
  command.add_flag("--in-place", options.in_place, "all_reduce in place instead of from one buffer into another");
}

void explain_bench(const CLI::App* command) {
  explain(command,
          {.paragraphs = {"The processes of each library are started once. They measure in turns, in rounds of a random order, so that all of "
                          "them see the same machine. Every result is verified; a wrong one ends the run, and its row is never written.",
                          "The table shows the median and the 99th percentile of a call's time and the bytes moved in a second; beside each other "
                          "library, its time as a multiple of unisono's, with the range of the rounds. The roofline copies as many bytes on each "
                          "rank. Ctrl-C ends the run, and the table shows what there is. The document performance.md, among those of unisono, "
                          "tells how to read it."},
           .examples = {{"unisono bench", "all_reduce, on one rank per core."},
                        {"unisono bench all_reduce broadcast -n 4 --sizes 8,64KiB,16MiB", "Two operations at three sizes."},
                        {"unisono bench --peers openmpi,mpich,gloo --json results.json", "Beside other libraries, and kept for programs."}},
           .exit_codes = {{"0", "Everything was measured, and every result was right."},
                          {"1", "A result was wrong, or the ranks could not be started or did not answer."},
                          {"2", "Wrong use, or a backend that cannot do what was asked for."},
                          {"128+S", "Signal S ended the run; the table was printed."}}});
}

}  // namespace

void add_bench(CLI::App& app) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* command = app.add_subcommand("bench", "Measure collectives beside the roofline and other libraries, in the same processes");
  command->footer("unisono bench [OP…] [-n RANKS] [--sizes 8,1MiB] [--peers gloo] [options]");
  add_subject(*command, *options);
  add_manner(*command, *options);
  explain_bench(command);
  command->callback([options] {
    if (const int code = run(*options); code != 0) throw CLI::RuntimeError(code);
  });
}

}  // namespace unisono::tools
