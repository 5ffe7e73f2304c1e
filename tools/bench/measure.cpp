// Measures: the processes of each setup are started once, and take turns round by round.

#include "bench/measure.h"

#include <unistd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <iterator>
#include <memory>

#include "base/deadline.h"
#include "base/environment.h"
#include "base/processors.h"
#include "bench/explain.h"
#include "bench/report.h"
#include "bench/results.h"
#include "bench/set.h"
#include "common/machine.h"
#include "common/progress.h"
#include "common/text.h"
#include "engines/nccl/loader.h"
#include "engines/registry.h"
#include "launch/process/program.h"
#include "unisono/error.h"

namespace unisono::tools {
namespace {

constexpr int usual_rounds = 11;
constexpr int quick_rounds = 3;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool has_sanitizer = true;
#else
constexpr bool has_sanitizer = false;
#endif

using Seconds = std::chrono::duration<double>;

/// A temporary folder, removed by the destructor.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "unisono-bench-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw LaunchFailed("cannot make a folder like " + name + ": " + launcher::error_text(errno));
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

/// Returns "5 s", "12 min" or "3 h 20 min".
std::string rough_duration(Seconds time) {
  constexpr double minute = 60, hour = 3600;
  const double seconds = time.count();
  if (seconds < 1.5 * minute) return fmt::format("{:.0f} s", std::ceil(seconds));
  const auto minutes = static_cast<long>(std::ceil(seconds / minute));
  return seconds < hour ? fmt::format("{} min", minutes) : fmt::format("{} h {} min", minutes / 60, minutes % 60);
}

/// Shows how far a measurement is, and about how long it still takes.
class BenchProgress {
 public:
  /// `limit`: no further round begins after this time.
  BenchProgress(int rounds, std::size_t sets, std::optional<Seconds> limit) : rounds_(rounds), sets_(sets), limit_(limit) {}

  /// Tells that the set with this number has done `part`, from 0 to 1, of a round.
  void show(int round, std::size_t number, const std::string& set, double part) {
    if (part > 0 && !line_.is_due()) return;
    std::string text = fmt::format("round {} of {}, {}", round + 1, rounds_, set);
    // All rounds take about as long as those so far.
    const Seconds elapsed = Clock::now() - start_;
    const double done = (round + (static_cast<double>(number) + part) / static_cast<double>(sets_)) / rounds_;
    constexpr Seconds too_early{0.5};
    if (elapsed > too_early && done > 0) {
      Seconds left = elapsed * ((1 - done) / done);
      if (limit_) left = std::clamp(*limit_ - elapsed, Seconds(0), left);
      text += fmt::format(", about {} left", rough_duration(left));
    }
    line_.show(text);
  }

 private:
  using Clock = std::chrono::steady_clock;
  ProgressLine line_;
  const int rounds_;
  const std::size_t sets_;
  const std::optional<Seconds> limit_;
  const Clock::time_point start_ = Clock::now();
};

template <class T>
void keep_first(std::vector<T>& list) {
  std::vector<T> once;
  for (const T& entry : list)
    if (std::ranges::find(once, entry) == once.end()) once.push_back(entry);
  list = std::move(once);
}

/// Returns why the operation cannot be measured with these ranks and sizes; empty where it can.
std::string why_not(bench::Operation operation, const bench::Plan& plan) {
  const OperationTraits* const traits = operation.traits();
  if (plan.on_device && (traits == nullptr || traits->in == Layout::nothing))
    return fmt::format("{} is measured in memory of the host alone, and --device cuda is for collectives with data", bench::to_string(operation));
  const bool has_partner = operation == bench::Operation::send_recv || bench::is_in_pairs(operation);
  if (has_partner && plan.ranks == 1) return fmt::format("{} needs at least two ranks", bench::to_string(operation));
  const std::size_t most = bench::most_bytes_of(operation);
  if (plan.sizes.front() > most)
    return fmt::format("{} has sizes up to {}, and --sizes has none of them", bench::to_string(operation), format_bytes(most));
  return {};
}

/// Adds the operations of these names, after the ranks and sizes are known; "all" is every one that these allow.
void add_operations(bench::Plan& plan, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (name == all_operations) {
      std::ranges::copy_if(bench::operations(), std::back_inserter(plan.operations),
                           [&](auto operation) { return why_not(operation, plan).empty(); });
      continue;
    }
    plan.operations.push_back(*bench::parse_operation(name));  // sort_words has refused unknown names
    if (const std::string why = why_not(plan.operations.back(), plan); !why.empty()) throw InvalidArgument(why);
  }
  keep_first(plan.operations);
}

/// Refuses what goes with memory of the host alone.
void check_device(const BenchOptions& options) {
  const auto of_host = [](const std::string& what) { throw InvalidArgument(what + " works with memory of the host, and not with --device cuda"); };
  for (const std::string& peer : options.peers) {
    const bool is_of_device = peer == "nccl";
    if (options.device == "cuda" && !is_of_device) throw InvalidArgument(fmt::format("--device cuda measures the peer nccl alone, and not {}", peer));
    if (options.device == "host" && is_of_device) throw InvalidArgument("the peer nccl works with memory of devices", {.hint = "--device cuda"});
  }
  if (options.device == "host") return;
  if (options.buffers != "private") of_host("--buffers " + options.buffers);
  if (options.data == "touch") of_host("--data touch");
  if (options.hosts > 1) of_host("--hosts");
  if (options.report.explain) of_host("--explain");
}

/// Returns the backend that is to be measured. Throws BackendUnavailable for an engine that cannot run here.
std::string backend_of(const BenchOptions& options) {
  const bool has_hosts = options.hosts > 1;
  std::string asked = options.backend;
  const auto is_auto = [&] { return engines::host_backend(asked) == "auto"; };
  // The ranks share a machine, whatever hosts they present, and the choice by machines would be the engine of one host.
  if (has_hosts && is_auto()) asked = base::Environment::process().get("UNISONO_BACKEND").value_or("tcp");
  if (has_hosts && is_auto()) asked = "tcp";
  if (is_auto()) return asked;
  const std::string engine = engines::host_backend(asked);
  const engines::EngineMaker maker = engines::maker(engine);
  if (has_hosts && (maker.is_shared_memory || !maker.traits.spans_hosts))
    throw InvalidArgument(fmt::format("--hosts needs an engine for networks, and {} serves one host", engine), {.hint = "--backend tcp"});
  return asked;
}

/// Returns how many devices this machine has. Throws BackendUnavailable, with what is missing, if there is none.
int count_devices() {
  namespace nccl = engines::nccl;
  try {
    return nccl::vendor(nccl::Wanted::runtime_only)->devices;
  } catch (const BackendUnavailable& missing) {
    throw BackendUnavailable("--device cuda cannot be used: " + missing.message());
  }
}

bench::Plan plan_of_set(bench::Plan plan, const BenchSetup& setup, const BenchOptions& options) {
  if (::isatty(STDERR_FILENO) == 1) plan.reports.emplace_back("progress");
  if (options.report.explain) plan.reports.emplace_back("counts");
  if (options.compare != "off" && options.record != "off") plan.candidates.emplace_back("unisono");
  if (options.compare != "on") plan.candidates.emplace_back("unisono-unchecked");
  if (options.record != "on") plan.candidates.emplace_back("unisono-unrecorded");
  plan.candidates.insert(plan.candidates.end(), setup.peers.begin(), setup.peers.end());
  plan.mpi = {.name = setup.name, .library = setup.library};
  return plan;
}

void describe_run(const BenchResults& results, const BenchSetup& setup, int wanted_rounds) {
  std::string peers;
  for (const std::string& peer : setup.peers) peers.append(", ").append(setup.versions.at(peer));
  const double barrier = results.barrier_ns(setup.name).value_or(0);
  const std::string_view cores = cores_of(barrier, results.conditions().ranks);
  const std::string_view label = cores == near_cores ? "A, near cores" : cores == cores_between ? "between A and B" : "B, distant or shared cores";
  const std::string set = fmt::format("set {}: {}, backend {}{}", setup.name, text_of(results.conditions()), results.backend(setup.name), peers);
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
      std::vector<std::string_view> gaps;
      for (const bench::Operation operation : plan.operations) {
        const auto is_it = [&](const BenchRow& row) { return row.set == setup.name && row.impl == peer && row.operation == operation; };
        if (std::ranges::none_of(rows, is_it)) gaps.push_back(bench::to_string(operation));
      }
      if (gaps.empty()) continue;
      std::cerr << wrap(fmt::format("unisono bench: {} has no {} of {}", peer, fmt::join(gaps, ", "), unisono::to_string(plan.dtype)), 2) << "\n";
    }
}

void measure_rounds(const std::vector<std::unique_ptr<BenchSet>>& sets, const BenchOptions& options, int rounds, BenchResults& results) {
  const base::Deadline budget(std::chrono::milliseconds(static_cast<std::int64_t>(options.seconds.value_or(0) * 1000)));
  BenchProgress progress(rounds, sets.size(), options.seconds ? std::optional(Seconds(*options.seconds)) : std::nullopt);
  for (int done = 0; done < rounds && !(options.seconds && budget.passed() && done >= quick_rounds); ++done) {
    for (std::size_t i = 0; i < sets.size(); ++i) {
      const std::string& name = sets[i]->setup().name;
      progress.show(done, i, name, 0);
      const ProcessorTime before = processor_time();
      const nlohmann::json event = sets[i]->round(done, [&](double part) { progress.show(done, i, name, part); });
      const ProcessorTime after = processor_time();
      results.add(name, event, stolen_share(before, after));
    }
  }
}

void print_results(const BenchResults& results, const std::vector<BenchRow>& rows, const std::vector<BenchSetup>& setups, int rounds) {
  std::cout << describe_machine();
  const std::size_t cache = private_cache_bytes();
  for (const auto& group : groups_of(rows)) {
    const auto setup = std::ranges::find(setups, group.front().set, &BenchSetup::name);
    describe_run(results, *setup, rounds);
    print_table(std::cout, group, cache);
    print_counts(std::cout, results.counts(setup->name));
  }
}

}  // namespace

bench::Plan plan_of(const BenchOptions& options) {
  if (options.report.explain && has_sanitizer)
    throw Unsupported("--explain replaces functions of the C library, as the sanitizer of this build does");
  bench::Plan plan;
  check_device(options);
  plan.on_device = options.device == "cuda";
  const int usual_ranks = plan.on_device ? count_devices() : std::max(2, base::allowed_processors());
  for (const std::string& size : options.sizes) plan.sizes.push_back(parse_bytes(size));
  std::ranges::sort(plan.sizes);
  keep_first(plan.sizes);
  plan.dtype = bench::parse_dtype(options.dtype);
  plan.ranks = options.ranks > 0 ? options.ranks : usual_ranks;
  add_operations(plan, options.operations);
  plan.hosts = options.hosts;
  if (plan.hosts > plan.ranks) throw InvalidArgument("--hosts asks for more hosts than there are ranks");
  plan.shared_buffers = options.buffers == "shared";
  if (options.data == "varying") plan.data = bench::DataMode::varying;
  else if (options.data == "touch") plan.data = bench::DataMode::touch;
  plan.backend = backend_of(options);
  plan.in_place = options.in_place;
  if (plan.in_place && (plan.operations.size() != 1 || plan.operations.front() != bench::Operation::all_reduce))
    throw InvalidArgument("--in-place goes with all_reduce alone");
  plan.bind = options.bind == "core";
  plan.seed = options.seed;
  constexpr std::chrono::microseconds quick_block_time{500}, usual_block_time{3000};
  plan.block_time = options.quick ? quick_block_time : usual_block_time;
  plan.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(options.timeout_seconds * 1000));
  return plan;
}

BenchConditions conditions_of(const BenchOptions& options, const bench::Plan& plan) {
  return {.ranks = plan.ranks,
          .hosts = plan.hosts,
          .dtype = std::string(bench::short_name(plan.dtype)),
          .buffers = plan.on_device ? std::string(device_buffers) : options.buffers,
          .data = std::string(to_string(plan.data))};
}

BenchMeasured measure(const BenchOptions& options, const bench::Plan& plan, const std::vector<BenchSetup>& setups, launcher::SignalScope& signals,
                      const launcher::Watchdog& watchdog) {
  const TemporaryFolder folder;
  std::vector<std::unique_ptr<BenchSet>> sets;
  BenchResults results(conditions_of(options, plan));
  for (const BenchSetup& setup : setups) {
    sets.push_back(std::make_unique<BenchSet>(setup, plan_of_set(plan, setup, options), folder.path() / setup.name, base::Environment::process(),
                                              signals, watchdog));
    results.add_set(setup, sets.back()->backend());
  }
  const int rounds = options.rounds.value_or(options.quick ? quick_rounds : usual_rounds);
  BenchMeasured measured;
  try {
    measure_rounds(sets, options, rounds, results);
    for (const auto& set : sets) set->finish();
  } catch (const BenchInterrupted& by) {
    measured.interrupted = by.signal;
  }
  sets.clear();  // ends the processes, so that their output does not disturb the report
  if (measured.interrupted) std::cerr << "unisono bench: ended by " << launcher::signal_name(*measured.interrupted) << std::endl;
  measured.rows = results.rows();
  if (!measured.rows.empty()) print_results(results, measured.rows, setups, rounds);
  if (!measured.interrupted) name_gaps(measured.rows, plan, setups);
  return measured;
}

using Seconds = std::chrono::duration<double>;

}  // namespace unisono::tools
