#include "launch/job/placement.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <string_view>

#include <fmt/format.h>

#include "base/counted.h"
#include "base/log.h"
#include "base/processors.h"
#include "launch/job/other_binder.h"
#include "launch/process/host.h"
#include "launch/process/program.h"

namespace unisono::launcher {

using base::counted;

namespace {

Placement unbound(const std::string& why) { return {.text = "no rank is bound: " + why}; }

/// `where`: to what the cores belong.
Placement too_many(std::size_t ranks, std::size_t threads, std::size_t cores, std::string_view where = {}) {
  const std::string of_each = threads > 1 ? fmt::format(" of {} threads (OMP_NUM_THREADS)", threads) : "";
  return unbound(fmt::format("{}{} share {}{}", counted(ranks, "rank"), of_each, counted(cores, "core"), where));
}

Placement only_rank(std::size_t cores) { return unbound(fmt::format("the only rank may use {}", counted(cores, "core"))); }

Placement held_by_others(std::size_t held, std::size_t all) { return unbound(fmt::format("other jobs hold {} of {}", held, counted(all, "core"))); }

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

/// Returns the cores of each part, without parts of which none may be used. Siblings are in one part.
std::vector<std::vector<Core>> cores_of_parts(const HostParts& parts, const std::vector<Core>& cores) {
  std::vector<std::vector<Core>> of_parts;
  for (const std::vector<int>& processors : parts.processors) {
    std::vector<Core> inside;
    std::ranges::copy_if(cores, std::back_inserter(inside),
                         [&](const Core& core) { return std::ranges::find(processors, core.processors.front()) != processors.end(); });
    if (!inside.empty()) of_parts.push_back(std::move(inside));
  }
  return of_parts;
}

Placement one_part_each(const PlacementFacts& facts, const std::vector<Core>& cores, const std::function<bool(const Core&)>& take) {
  const std::vector<std::vector<Core>> parts = cores_of_parts(facts.parts, cores);
  std::vector<std::size_t> part_of_core;  // of all that are in parts, in the order of these
  for (std::size_t part = 0; part < parts.size(); ++part) part_of_core.insert(part_of_core.end(), parts[part].size(), part);
  if (parts.empty()) return unbound(fmt::format("none of {} is in any {}", counted(cores.size(), "core"), facts.parts.name));
  const auto ranks = static_cast<std::size_t>(facts.ranks), threads = static_cast<std::size_t>(facts.threads);
  if (ranks == 1 && parts.front().size() == cores.size()) return only_rank(cores.size());
  Placement placement{
      .text = fmt::format("each of {} is bound to all cores of one of {}", counted(ranks, "rank"), counted(parts.size(), facts.parts.name))};
  std::vector<std::size_t> ranks_of_part(parts.size());
  for (std::size_t i = 0; i < ranks; ++i) {
    const std::size_t part = part_of_core[i * part_of_core.size() / ranks];
    ++ranks_of_part[part];
    placement.processors.push_back(siblings_last(parts[part]));
  }
  std::size_t held = 0;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    const std::size_t processors = siblings_last(parts[part]).size();
    if (ranks_of_part[part] * threads > processors) return too_many(ranks_of_part[part], threads, processors, " of one " + facts.parts.name);
    if (ranks_of_part[part] > 0) held += static_cast<std::size_t>(std::ranges::count_if(parts[part], std::not_fn(take)));
  }
  if (held > 0) return held_by_others(held, cores.size());
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

/// Logs the choices at level info only (UNISONO_LOG=info), because nothing is wrong.
void say_what_was_chosen(const JobOptions& options, const Placement& placement) {
  if (base::log_level() > base::LogLevel::info) return;
  const std::string cores = base::counted(static_cast<std::size_t>(base::allowed_processors()), "core"),
                    ranks = base::counted(static_cast<std::size_t>(options.ranks), "rank");
  // The process of a function has already read its environment, so nothing is set for it.
  if (!options.function && !options.environment.has("OMP_NUM_THREADS")) {
    base::info(fmt::format("OMP_NUM_THREADS={} for each rank ({}, {})", placement.threads, cores, ranks));
  }
  if (!options.function || options.ranks > base::allowed_processors()) base::info(placement.text);
}

}  // namespace

Placement place_ranks(const PlacementFacts& facts, const std::vector<Core>& cores, const std::function<bool(const Core&)>& take) {
  const auto ranks = static_cast<std::size_t>(facts.ranks), threads = static_cast<std::size_t>(facts.threads);
  const std::size_t processors = siblings_last(cores).size(), at_a_time = std::min(processors, static_cast<std::size_t>(facts.at_a_time));
  if (facts.binding == Binding::core) return one_core_each(ranks, cores, take);
  if (ranks > at_a_time) return too_many(ranks, threads, at_a_time);
  if (facts.binding == Binding::none) return unbound("--bind none");
  if (!facts.bound_by.empty()) return unbound(facts.bound_by + " decides where they run");
  if (ranks * threads > at_a_time) return too_many(ranks, threads, at_a_time);
  if (!facts.parts.processors.empty()) return one_part_each(facts, cores, take);
  // Where only the time is limited, others use the same processors: nobody takes the first ones then.
  const bool takes_some = threads > 1 && at_a_time == processors;
  const std::size_t wanted = takes_some ? std::min(ranks * threads, cores.size()) : cores.size();
  if (ranks == 1 && wanted == cores.size()) return only_rank(wanted);
  std::vector<Core> taken;
  for (const Core& core : cores) {
    if (taken.size() < wanted && take(core)) taken.push_back(core);
  }
  if (taken.size() < wanted) return held_by_others(cores.size() - taken.size(), cores.size());
  Placement placement = share(ranks, taken, cores.size());
  if (least_processors(placement) < threads) return too_many(ranks, threads, at_a_time);
  return placement;
}

Placement place_on_this_host(const JobOptions& options, const std::string& program, const HostParts& parts) {
  HeldCores held;
  const base::Processors own = base::own_processors();
  const bool may_bind = options.binding != Binding::none && options.binding != Binding::core;
  const PlacementFacts facts{.binding = options.binding,
                             .parts = parts,
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
  say_what_was_chosen(options, placement);
  return placement;
}

}  // namespace unisono::launcher
