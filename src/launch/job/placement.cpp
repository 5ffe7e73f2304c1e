#include "launch/job/placement.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <sstream>
#include <string_view>

#include <fmt/format.h>

#include "base/processors.h"
#include "launch/process/host.h"
#include "launch/process/program.h"

namespace unisono::launcher {
namespace {

/// Programs that decide where those run which they start.
constexpr std::array binders = {"taskset", "numactl", "hwloc-bind", "likwid-pin", "likwid-mpirun", "mpirun",  "mpiexec",
                                "orterun", "prterun", "srun",       "jsrun",      "aprun",         "torchrun"};

std::string counted(std::size_t number, std::string_view what) { return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s"); }

Placement unbound(const std::string& why) { return {.text = "no rank is bound: " + why}; }

/// Returns the processors of these cores: the first of each core, then the second ones, and so on.
std::vector<int> siblings_last(const std::vector<Core>& cores) {
  std::vector<int> order;
  for (std::size_t sibling = 0, before = 1; before > 0; ++sibling) {
    before = 0;
    for (const Core& core : cores) {
      if (core.processors.size() <= sibling) continue;
      order.push_back(core.processors[sibling]);
      ++before;
    }
  }
  return order;
}

/// Rank i gets the i-th core alone, whoever else is there.
Placement one_core_each(std::size_t ranks, const std::vector<Core>& cores, const std::function<bool(const Core&)>& take) {
  const std::vector<int> order = siblings_last(cores);
  Placement placement{.text = "each rank is bound to one processor (--bind core)"};
  for (std::size_t i = 0; i < ranks; ++i) {
    if (i < cores.size()) static_cast<void>(take(cores[i]));
    placement.processors.push_back({order[i % order.size()]});
  }
  return placement;
}

/// There are as many processors as ranks, or more.
Placement share(std::size_t ranks, const std::vector<Core>& cores, std::size_t all) {
  Placement placement;
  if (ranks > cores.size()) {
    const std::vector<int> order = siblings_last(cores);
    for (std::size_t i = 0; i < ranks; ++i) placement.processors.push_back({order[i]});
    placement.text = fmt::format("each of {} is bound to a processor of {}", counted(ranks, "rank"), counted(all, "core"));
    return placement;
  }
  const std::size_t least = cores.size() / ranks, most = (cores.size() + ranks - 1) / ranks;
  for (std::size_t i = 0; i < ranks; ++i) {
    std::vector<int>& own = placement.processors.emplace_back();
    for (std::size_t core = i * cores.size() / ranks; core < (i + 1) * cores.size() / ranks; ++core)
      own.insert(own.end(), cores[core].processors.begin(), cores[core].processors.end());
  }
  placement.text = fmt::format("each of {} is bound to {}{} of {}", counted(ranks, "rank"), least, most > least ? fmt::format(" or {}", most) : "",
                               counted(all, "core"));
  return placement;
}

std::size_t least_processors(const Placement& placement) {
  std::size_t least = std::numeric_limits<std::size_t>::max();
  for (const auto& own : placement.processors) least = std::min(least, own.size());
  return least;
}

/// Returns the number of threads that OMP_NUM_THREADS ("4", or "4,2" of nested ones) says; 1 where it says nothing.
int threads_of(const base::Environment& environment) {
  constexpr int most = 1 << 16;
  const std::string text = environment.get("OMP_NUM_THREADS").value_or("");
  int threads = 0;
  std::from_chars(text.data(), text.data() + text.size(), threads);
  return std::clamp(threads, 1, most);
}

/// Returns a word's last part without an ending: "mpirun" of "/usr/bin/mpirun.openmpi".
std::string_view program_name(std::string_view word) {
  if (const auto slash = word.rfind('/'); slash != std::string_view::npos) word.remove_prefix(slash + 1);
  return word.substr(0, word.find('.'));
}

bool is_shell(std::string_view word) { return program_name(word).ends_with("sh"); }

/// Returns the first program in the text of a command, or of a shell script, that binds what it starts. Comments are left out.
std::string binder_in(std::string_view text) {
  constexpr std::string_view between = " \t\r\n;|&()`\"'=";
  bool is_ours = false;
  while (!text.empty()) {
    const bool begins_comment = text.front() == '#';
    const std::string_view word = text.substr(0, text.find_first_of(begins_comment ? "\n" : between));
    const std::string_view name = program_name(word);
    if (!begins_comment && std::ranges::find(binders, name) != binders.end()) return std::string(name);
    if (is_ours && (name == "run" || name == "bench")) return fmt::format("unisono {}", name);  // whose ranks are placed by themselves
    if (!word.empty()) is_ours = name == "unisono";
    text.remove_prefix(std::min(word.size() + (begins_comment ? 0 : 1), text.size()));
  }
  return {};
}

/// Returns the beginning of a file.
std::string beginning_of(const std::string& path) {
  constexpr std::size_t enough = 1U << 16;
  std::string text(enough, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(text.data(), static_cast<std::streamsize>(enough));
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  return text;
}

/// Returns the text of a shell script, as its first line says that it is; empty for other files.
std::string script_at(const std::string& path) {
  std::string text = beginning_of(path);
  if (!text.starts_with("#!")) return {};
  std::istringstream interpreter(text.substr(2, text.find('\n')));  // "/usr/bin/env bash", "/bin/sh -e"
  for (std::string word; interpreter >> word;) {
    if (is_shell(word)) return text;
  }
  return {};
}

}  // namespace

Placement place_ranks(const PlacementFacts& facts, const std::vector<Core>& cores, const std::function<bool(const Core&)>& take) {
  const auto ranks = static_cast<std::size_t>(facts.ranks), threads = static_cast<std::size_t>(facts.threads);
  const std::size_t processors = siblings_last(cores).size(), at_a_time = std::min(processors, static_cast<std::size_t>(facts.at_a_time));
  if (facts.binding == Binding::core) return one_core_each(ranks, cores, take);
  const auto too_many = [&] {
    const std::string of_each = threads > 1 ? fmt::format(" of {} threads (OMP_NUM_THREADS)", threads) : "";
    return unbound(fmt::format("{}{} share {}", counted(ranks, "rank"), of_each, counted(at_a_time, "core")));
  };
  if (ranks > at_a_time) return too_many();
  if (facts.binding == Binding::none) return unbound("--bind none");
  if (!facts.bound_by.empty()) return unbound(facts.bound_by + " decides where they run");
  if (ranks * threads > at_a_time) return too_many();
  // Where only the time is limited, others use the same processors: nobody takes the first ones then.
  const bool takes_some = threads > 1 && at_a_time == processors;
  const std::size_t wanted = takes_some ? std::min(ranks * threads, cores.size()) : cores.size();
  if (ranks == 1 && wanted == cores.size()) return unbound(fmt::format("the only rank may use {}", counted(wanted, "core")));
  std::vector<Core> taken;
  for (const Core& core : cores) {
    if (taken.size() < wanted && take(core)) taken.push_back(core);
  }
  if (taken.size() < wanted) return unbound(fmt::format("other jobs hold {} of {}", cores.size() - taken.size(), counted(cores.size(), "core")));
  Placement placement = share(ranks, taken, cores.size());
  if (least_processors(placement) < threads) return too_many();
  return placement;
}

std::string other_binder(const std::string& program, const std::vector<std::string>& command, const base::Environment& environment) {
  for (const auto& [name, sign] : {std::pair("GOMP_CPU_AFFINITY", ""), std::pair("KMP_AFFINITY", "proclist"), std::pair("OMP_PLACES", "{")}) {
    const auto value = environment.get(name);
    if (value && !value->empty() && value->find(sign) != std::string::npos) return name;
  }
  std::string text;
  for (const std::string& word : command) text += word + "\n";
  std::string script = script_at(program);
  if (is_shell(program)) {  // sh script …
    for (std::size_t i = 1; i < command.size() && script.empty(); ++i) script = beginning_of(command[i]);
  }
  return binder_in(text + script);
}

Placement place_on_this_host(const JobOptions& options, const std::string& program) {
  HeldCores held;
  const base::Processors own = base::own_processors();
  const bool may_bind = options.binding == Binding::share;
  const PlacementFacts facts{.binding = options.binding,
                             .ranks = options.ranks,
                             .threads = threads_of(options.environment),
                             .at_a_time = own.quota,
                             .bound_by = may_bind ? other_binder(program, options.command, options.environment) : ""};
  Placement placement = place_ranks(facts, cores_of(allowed_cpus()), [&held](const Core& core) { return held.take(core); });
  placement.threads = std::max(1, own.count() / options.ranks);
  if (!placement.processors.empty()) {
    placement.threads = std::min(placement.threads, static_cast<int>(least_processors(placement)));
    placement.held = std::move(held);
  } else if (const int error = held.error(); error != 0) {
    placement.text = unbound("cores cannot be held: " + error_text(error)).text;
  }
  return placement;
}

}  // namespace unisono::launcher
