// unisono simulate carries out the library's schedules on a model of a network with up to 100,000 ranks.

#include <CLI/CLI.hpp>

#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/printable.h"
#include "common/commands.h"
#include "common/progress.h"
#include "help/usage.h"
#include "schedule/selection.h"
#include "simulate/report.h"
#include "common/text.h"
#include "unisono/error.h"

namespace unisono::tools {
namespace {

using simulate::Parameters;
using simulate::SimulationOptions;

constexpr long most_ranks = 100000;
constexpr std::size_t most_crossing_bytes = std::size_t{1} << 30;

struct SimulateFlags {
  std::string operation = "all_reduce", algorithm, bytes = "1MiB", topology = "flat", dead, svg, selection = "default";
  int ranks = 16, ranks_per_host = 1, root = 0, calls = 1;
  std::vector<std::string> late, slow;
  SimulationOptions options = {};
  bool are_apart = false, crossing = false, as_json = false, without_agreement = false, without_start = false;
};

std::vector<std::string> operation_words() {
  std::vector<std::string> words;
  for (const OperationTraits& row : operation_table)
    if (!is_message(row.operation)) words.emplace_back(row.name);
  return words;
}

std::vector<std::string> algorithm_words() {
  std::vector<std::string> words;
  for (const schedule::Algorithm& row : schedule::table())
    if (row.cost != nullptr && std::ranges::find(words, row.name) == words.end()) words.emplace_back(row.name);
  return words;
}

template <class Value>
std::vector<std::pair<std::string, Value>> pairs_of(const char* option, const std::vector<std::string>& texts) {
  std::vector<std::pair<std::string, Value>> pairs;
  for (const std::string& text : texts) {
    const auto colon = text.find(':');
    char* end = nullptr;
    const double value = colon == std::string::npos ? 0 : std::strtod(text.c_str() + colon + 1, &end);
    if (colon == 0 || end == nullptr || end == text.c_str() + colon + 1 || *end != '\0' || !(value >= 0))
      throw CLI::ValidationError(option, fmt::format("must be two values with a colon between them, not '{}'", text));
    pairs.emplace_back(text.substr(0, colon), static_cast<Value>(value));
  }
  return pairs;
}

int rank_in(const char* option, const std::string& text, int ranks) {
  char* end = nullptr;
  const long rank = std::strtol(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || rank < 0 || rank >= ranks)
    throw CLI::ValidationError(option, fmt::format("must be of a rank from 0 to {}, not '{}'", ranks - 1, text));
  return static_cast<int>(rank);
}

void add_stragglers(const SimulateFlags& flags, SimulationOptions& options) {
  for (const auto& [rank, us] : pairs_of<double>("--late", flags.late))
    options.stragglers.push_back({.rank = rank_in("--late", rank, flags.ranks), .late_us = us});
  for (const auto& [rank, factor] : pairs_of<double>("--slow", flags.slow))
    options.stragglers.push_back({.rank = rank_in("--slow", rank, flags.ranks), .slowness = factor});
}

/// Reads "host:3", "leaf:1" or "global:0".
simulate::DeadLink dead_link_of(const SimulateFlags& flags, const SimulationOptions& options) {
  using Where = simulate::DeadLink::Where;
  const auto [level, number] = pairs_of<int>("--dead-link", {flags.dead}).front();
  const int hosts = (flags.ranks + flags.ranks_per_host - 1) / flags.ranks_per_host;
  const int leaf = simulate::Network::hosts_of_leaf(options.network), half = options.network.ports / 2;
  const auto up = [](int count, int by) { return (count + by - 1) / by; };
  const bool is_flat = options.network.topology == simulate::Topology::flat;
  int there = -1;
  simulate::DeadLink dead{.number = number};
  if (level == "host") there = hosts;
  if (level == "leaf" && !is_flat) {
    dead.where = Where::leaf;
    there = up(hosts, leaf) * (options.network.topology == simulate::Topology::rail_optimised ? options.network.nics : 1);
  }
  if (level == "global" && options.network.topology == simulate::Topology::dragonfly_plus) {
    dead.where = Where::global;
    if (up(hosts, leaf * half) > 1) there = up(hosts, leaf * half);
  }
  if (there < 0)
    throw CLI::ValidationError("--dead-link", fmt::format("{} hosts that are connected as {} have no links '{}'", hosts, flags.topology, level));
  if (number >= there) throw CLI::ValidationError("--dead-link", fmt::format("must be {}:0 to {}:{}, not '{}'", level, level, there - 1, flags.dead));
  return dead;
}

simulate::Call call_of(const SimulateFlags& flags, const Parameters& parameters) {
  simulate::Call call;
  const auto row = std::ranges::find(operation_table, flags.operation, &OperationTraits::name);
  call.operation = row->operation;
  call.bytes = parse_bytes(flags.bytes);
  call.ranks = flags.ranks;
  call.ranks_per_host = flags.ranks_per_host;
  call.root = flags.root;
  call.algorithm = flags.algorithm;
  call.has_agreement = !flags.without_agreement;
  call.calls = flags.calls;
  call.are_apart = flags.are_apart;
  call.is_crowded = parameters.cores > 0 && parameters.hosts_per_machine * flags.ranks_per_host > parameters.cores;
  if (flags.selection == "network") call.selection = simulate::as_measured(parameters);
  if (call.ranks_per_host > call.ranks)
    throw CLI::ValidationError("--ranks-per-host", fmt::format("must be at most the number of ranks, {}, not '{}'", call.ranks, call.ranks_per_host));
  if (call.root >= call.ranks) throw CLI::ValidationError("--root", fmt::format("must be a rank from 0 to {}, not '{}'", call.ranks - 1, call.root));
  return call;
}

void add_starts(simulate::Report& report, SimulationOptions options) {
  simulate::Call barrier = report.call;
  barrier.operation = Operation::barrier;
  barrier.algorithm = {};
  barrier.calls = 1;
  barrier.has_agreement = true;
  options.network.dead.reset();
  options.stragglers.clear();
  const simulate::Outcome first = simulate::simulate(barrier, options);
  using simulate::Design;
  for (const auto& [name, design] : {std::pair{"as it is", Design::present}, {"all at once", Design::eager}, {"by rank", Design::by_rank}})
    report.starts.emplace_back(name, simulate::start_up(report.call, options.parameters, {}, design, first));
}

/// Simulates what the report is about. On a terminal a line tells meanwhile how far that is.
void simulate_all(const SimulateFlags& flags, simulate::Report& report) {
  ProgressLine line;
  SimulationOptions options = report.options;
  const auto begin = [&](const std::string& what) {
    line.show(what);
    options.progress = [&line, what](double part) {
      if (line.is_due()) line.show(fmt::format("{}: {:.0f} %", what, 100 * part));
    };
  };
  begin(fmt::format("simulating {} of {} ranks", flags.operation, flags.ranks));
  report.outcome = simulate::simulate(report.call, options);
  if (!flags.without_start) {
    begin("simulating the start of the job");
    add_starts(report, options);
  }
  if (!flags.crossing && flags.svg.empty()) return;
  begin(fmt::format("comparing the algorithms from 8 B to {}", format_bytes(most_crossing_bytes)));
  report.crossing = simulate::cross(report.call, options, most_crossing_bytes);
}

void simulate_as_asked(const SimulateFlags& flags) {
  simulate::Report report{.call = {}, .options = flags.options, .outcome = {}};
  SimulationOptions& options = report.options;
  const auto topology = std::ranges::find(simulate::topology_names, flags.topology);
  options.network.topology = static_cast<simulate::Topology>(topology - simulate::topology_names.begin());
  if (options.network.topology == simulate::Topology::rail_optimised && options.network.nics == 1) options.network.nics = flags.ranks_per_host;
  report.call = call_of(flags, options.parameters);
  options.network.hosts = report.call.hosts();
  add_stragglers(flags, options);
  if (!flags.dead.empty()) options.network.dead = dead_link_of(flags, options);
  std::ofstream picture;
  if (!flags.svg.empty()) {
    picture.open(flags.svg);
    if (!picture) throw CLI::ValidationError("--svg", "cannot write " + flags.svg);
  }
  simulate_all(flags, report);
  if (flags.as_json) std::cout << json_of(report).dump(2) << std::endl;
  else std::cout << text_of(report) << std::flush;
  if (flags.svg.empty()) return;
  const std::string title = fmt::format("{}, {} ranks on {} hosts, {}", flags.operation, flags.ranks, report.call.hosts(), flags.topology);
  if (!(picture << svg_of(*report.crossing, title) << std::flush)) throw CLI::RuntimeError(1);
}

/// Refuses other words, as `only` does; the help page has no room for so many of them.
void choice(CLI::Option* option, const std::vector<std::string>& words) { offer(option->check(one_of(words)), words)->type_name("NAME"); }

/// Returns the unit with which the name of an option ends: "US" of "--latency-us".
std::string unit_of(std::string_view name) {
  if (name.ends_with("-ns-per-byte")) return "NS";
  return name.ends_with("-bytes") ? "BYTES" : "US";
}

void add_call_options(CLI::App* command, SimulateFlags& flags) {
  command->option_defaults()->group("The call");
  choice(command->add_option("--operation", flags.operation, "The collective (all_reduce)"), operation_words());
  command->add_option("--bytes", flags.bytes, "The size of the vector, or of a rank's block (1MiB)")->type_name("SIZE");
  command->add_option("--ranks", flags.ranks, "The number of ranks (16)")->check(whole_number(2, most_ranks))->type_name("N");
  command->add_option("--ranks-per-host", flags.ranks_per_host, "The ranks of each host (1)")->check(whole_number(1, most_ranks))->type_name("N");
  command->add_option("--root", flags.root, "The root of operations that have one (0)")->check(whole_number(0, most_ranks))->type_name("RANK");
  offer(command->add_option("--algorithm", flags.algorithm, "A schedule of the table, instead of the selected one"), algorithm_words())
      ->type_name("NAME");
  choice(command->add_option("--selection", flags.selection, "Select by the library's default parameters, or by those of this network (default)"),
         {"default", "network"});
  constexpr long most_calls = 1000;
  command->add_option("--calls", flags.calls, "The number of calls, one after the other; the time of the last one counts (1)")
      ->check(whole_number(1, most_calls))
      ->type_name("N");
  command->add_flag("--calls-apart", flags.are_apart, "All ranks begin each call at the same time");
  command->add_flag("--without-agreement", flags.without_agreement, "Leave out the comparison of the ranks' calls");
  command->add_flag("--without-start", flags.without_start, "Leave out the start of the job");
}

void add_network_options(CLI::App* command, SimulateFlags& flags) {
  command->option_defaults()->group("The network");
  std::vector<std::string> topologies(simulate::topology_names.begin(), simulate::topology_names.end());
  choice(command->add_option("--topology", flags.topology, "How the hosts are connected (flat)"), topologies);
  simulate::NetworkOptions& network = flags.options.network;
  constexpr long most_ports = 1024, most_nics = 64;
  constexpr double most_oversubscription = 64;
  command->add_option("--ports", network.ports, "The ports of a switch (64)")->check(whole_number(4, most_ports))->type_name("N");
  command->add_option("--oversubscription", network.oversubscription, "Of a leaf switch: bandwidth to hosts divided by that to the core (1)")
      ->check(number(1, most_oversubscription))
      ->type_name("RATIO");
  command->add_option("--nics", network.nics, "Ports of a host; rail_optimised: one for each rank of a host (1)")
      ->check(whole_number(1, most_nics))
      ->type_name("N");
  command->add_option("--late", flags.late, "A rank that begins the call this late, in microseconds")->type_name("RANK:US");
  command->add_option("--slow", flags.slow, "A rank whose processor is slower by this factor")->type_name("RANK:FACTOR");
  command->add_option("--dead-link", flags.dead, "host:N, leaf:N or global:N: one link of this place is dead")->type_name("PLACE:N");
}

void add_parameter_options(CLI::App* command, SimulateFlags& flags) {
  command->option_defaults()->group("Figures of network and hosts");
  Parameters& all = flags.options.parameters;
  const auto add = [&](const char* name, double& value, const char* text) {
    command->add_option(name, value, fmt::format("{} ({:g})", text, value))->check(not_negative())->type_name(unit_of(name));
  };
  add("--latency-us", all.network.latency_us, "L of LogGP: the latency between hosts");
  add("--overhead-us", all.network.overhead_us, "o: the processor's time for each message, on either side");
  add("--gap-us", all.network.gap_us, "g: the least time between two messages of a rank");
  add("--ns-per-byte", all.network.ns_per_byte, "G: the time of a byte, of a message alone on its links");
  add("--work-ns-per-byte", all.network.work_ns_per_byte, "The processor's time for each byte of a message, on either side");
  command->add_option("--link-gbit", all.link_gbit, fmt::format("Bandwidth of each port ({:g})", all.link_gbit))
      ->check(number(1e-3, 1e6))
      ->type_name("GBIT");
  add("--link-burst-bytes", all.link_burst_bytes, "Bytes that pass an idle link at once, if it is shaped");
  add("--hop-us", all.hop_us, "The latency of each switch after the first");
  add("--host-call-us", all.host_call_us, "The time of a collective of a host's ranks in shared memory");
  add("--host-call-ns-per-byte", all.host_call_ns_per_byte, "The time of such a collective for each byte");
  add("--reduce-ns-per-byte", all.reduce_ns_per_byte, "The time for each byte that is combined with another");
  add("--copy-ns-per-byte", all.copy_ns_per_byte, "The time for each byte that is copied");
  constexpr long most_cores = 4096;
  command->add_option("--cores", all.cores, "The cores of a machine; 0: each rank has one (0)")->check(whole_number(0, most_cores))->type_name("N");
  command->add_option("--hosts-per-machine", all.hosts_per_machine, "Hosts that share a machine's cores, as network namespaces do (1)")
      ->check(whole_number(1, most_ranks))
      ->type_name("N");
  add("--switch-us", all.switch_us, "The time of a core's change from one rank to another, with --cores");
}

void add_simulate(CLI::App& app) {
  auto flags = std::make_shared<SimulateFlags>();
  CLI::App* command = add_command(app, "simulate");
  command->footer("unisono simulate [--operation NAME] [--bytes SIZE] [--ranks N] [--topology NAME] [--crossing] [--svg FILE] [--json] …");
  add_call_options(command, *flags);
  add_network_options(command, *flags);
  add_parameter_options(command, *flags);
  command->option_defaults()->group("What is shown");
  command->add_flag("--crossing", flags->crossing, "Compare all algorithms, from 8 bytes to 1 GiB");
  offer(command->add_option("--svg", flags->svg, "Draw the comparison into this file (SVG)"), {.kind = Values::Kind::file});
  command->add_flag("--json", flags->as_json, "Print one JSON object");
  explain(command,
          {.paragraphs = {"The schedules, the choice among them and the comparison of calls are those of the library. The network is a model: LogGP "
                          "for each message, and links that divide their bandwidth evenly among the messages on them. Nothing is sent.",
                          "It prints the time, the bytes of the links of each level, rounds, memory and connections of a rank. It also prints how "
                          "long the job takes to start: as it is now, with all connections made at once, and with a tree-shaped join.",
                          "Ranks that do the same are computed once. If this is impossible and there are too many messages to follow, the command "
                          "says so at once."},
           .examples = {{"unisono simulate --bytes 16MiB --ranks 1024 --ranks-per-host 8", "A call, and the start of the job."},
                        {"unisono simulate --ranks 512 --topology fat_tree --svg times.svg",
                         "All algorithms, and the sizes from which each is the fastest."},
                        {"unisono simulate --ranks 64 --late 7:500 --dead-link host:3", "A late rank and a dead link."}},
           .exit_codes = {{"0", "The call was simulated."},
                          {"1", "The picture could not be written."},
                          {"2", "Wrong use: an unknown operation, schedule or topology, or more ranks than the topology has."}}});
  command->callback([flags] { simulate_as_asked(*flags); });
}

}  // namespace
}  // namespace unisono::tools

int main(int argc, char** argv) { return unisono::tools::run_program({argv + 1, argv + argc}, unisono::tools::add_simulate); }
