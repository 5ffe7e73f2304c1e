#include "launch/job/placement.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "base/counted.h"
#include "base/processors.h"
#include "launch/job/other_binder.h"
#include "launch/process/host.h"
#include "launch/process/program.h"

namespace unisono::launcher {

using base::counted;

namespace {

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
