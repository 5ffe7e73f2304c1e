#include "simulate/report.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "common/text.h"
#include "unisono/detail/switches.h"

namespace unisono::simulate {
namespace {

using tools::pad_left;
using tools::pad_right;

constexpr std::size_t name_column = 22, number_column = 14, algorithm_column = 12;

std::string time_text(double us) {
  if (us == Crossing::none) return "-";
  if (us < 1e3) return fmt::format("{:.4g} µs", us);
  return us < 1e6 ? fmt::format("{:.4g} ms", us / 1e3) : fmt::format("{:.4g} s", us / 1e6);
}

std::string bytes_text(double bytes) {
  const auto [amount, unit] = tools::scaled_bytes(bytes);
  return fmt::format("{:.4g} {}", amount, unit);
}

std::string line(std::string_view name, const std::string& value) {
  return pad_right(name, name_column) + tools::wrap(value, name_column, name_column) + "\n";
}

std::string shape_text(const Report& report) {
  const NetworkOptions& network = report.options.network;
  std::string text = fmt::format("{} on {}, {}", report.call.ranks, tools::counted(static_cast<std::size_t>(report.call.hosts()), "host"),
                                 topology_names[static_cast<std::size_t>(network.topology)]);
  if (network.topology != Topology::flat) text += fmt::format(" of switches with {} ports", network.ports);
  if (network.oversubscription != 1) text += fmt::format(", oversubscribed {}:1", network.oversubscription);
  return text;
}

std::string links_text(const Outcome& outcome) {
  std::string out = fmt::format("\n{}", pad_right("links", name_column));
  for (const char* head : {"number", "Gbit/s", "most bytes", "all bytes", "busy"}) out += pad_left(head, number_column - 2);
  out += '\n';
  for (const LinkUse& use : outcome.links) {
    out += pad_right("  " + std::string(use.name), name_column);
    for (const std::string& cell : {fmt::format("{}", use.links), fmt::format("{:.4g}", use.gbit), bytes_text(use.most_bytes),
                                    bytes_text(use.all_bytes), fmt::format("{:.0f} %", 100 * use.busy)})
      out += pad_left(cell, number_column - 2);
    out += '\n';
  }
  return out;
}

std::string starts_text(const Report& report) {
  std::string out = fmt::format("\n{}", pad_right("start", name_column));
  for (const auto& [name, start] : report.starts) out += pad_left(name, number_column);
  out += '\n';
  std::vector<std::string_view> phases;
  for (const auto& [name, start] : report.starts) {
    for (const Phase& phase : start.phases)
      if (std::ranges::find(phases, phase.name) == phases.end()) phases.push_back(phase.name);
  }
  const auto row = [&](std::string_view name, const auto& cell) {
    out += pad_right("  " + std::string(name), name_column);
    for (const auto& [design, start] : report.starts) out += pad_left(cell(start), number_column);
    out += '\n';
  };
  for (const std::string_view name : phases) {
    row(name, [&](const Startup& start) {
      const auto found = std::ranges::find(start.phases, name, &Phase::name);
      return found == start.phases.end() ? std::string("-") : time_text(found->seconds * 1e6);
    });
  }
  row("together", [](const Startup& start) { return time_text(start.seconds() * 1e6); });
  row("requests to store", [](const Startup& start) { return fmt::format("{:.4g}", start.requests); });
  row("bytes of the store", [](const Startup& start) { return bytes_text(start.store_bytes); });
  row("connections", [](const Startup& start) { return fmt::format("{:.0f}", start.connections); });
  row("memory of a rank", [](const Startup& start) { return bytes_text(start.memory_bytes); });
  row("heartbeats in 1 s", [](const Startup& start) { return fmt::format("{:.4g}", start.heartbeats); });
  row("processor for them", [](const Startup& start) { return fmt::format("{:.3g} %", 100 * start.heartbeat_work); });
  for (const Phase& phase : report.starts.empty() ? std::vector<Phase>() : report.starts.front().second.phases) {
    if (!phase.limit.empty() && phase.seconds > 0) out += line("  " + std::string(phase.name), fmt::format("mostly {}", phase.limit));
  }
  return out;
}

std::string crossing_text(const Crossing& crossing) {
  std::string out = fmt::format("\n{}", pad_left("bytes", number_column - 4));
  for (const std::string_view name : crossing.algorithms) out += pad_left(name, std::max(name.size() + 2, algorithm_column));
  out += "  selected\n";
  for (const Crossing::Row& row : crossing.rows) {
    out += pad_left(tools::format_bytes(row.bytes), number_column - 4);
    for (std::size_t a = 0; a < crossing.algorithms.size(); ++a) {
      const std::string mark = a == row.fastest ? "*" : "";
      out += pad_left(mark + time_text(row.us[a]), std::max(crossing.algorithms[a].size() + 2, algorithm_column));
    }
    const double more = row.selected_us / row.us[row.fastest];
    out += fmt::format("  {}{}\n", row.selected, more > 1.005 && std::isfinite(more) ? fmt::format(" ({:.2f} x)", more) : "");
  }
  for (const Crossing::Point& point : crossing.points())
    out += fmt::format("{} is faster than {} from {} on\n", point.above, point.below, bytes_text(static_cast<double>(point.bytes)));
  return out;
}

nlohmann::ordered_json json_of(const Startup& start) {
  nlohmann::ordered_json json;
  for (const Phase& phase : start.phases) json["phases"][std::string(phase.name)] = phase.seconds;
  json["seconds"] = start.seconds();
  json["requests"] = start.requests;
  json["store_bytes"] = start.store_bytes;
  json["connections_per_rank"] = start.connections;
  json["memory_bytes_per_rank"] = start.memory_bytes;
  json["heartbeats_per_second"] = start.heartbeats;
  return json;
}

nlohmann::ordered_json json_of(const Crossing& crossing) {
  nlohmann::ordered_json json;
  for (const Crossing::Row& row : crossing.rows) {
    nlohmann::ordered_json one{{"bytes", row.bytes}, {"fastest", crossing.algorithms[row.fastest]}, {"selected", row.selected}};
    for (std::size_t a = 0; a < crossing.algorithms.size(); ++a) {
      if (row.us[a] != Crossing::none) one["us"][std::string(crossing.algorithms[a])] = row.us[a];
    }
    json["sizes"].push_back(one);
  }
  json["points"] = nlohmann::ordered_json::array();
  for (const Crossing::Point& point : crossing.points())
    json["points"].push_back({{"bytes", point.bytes}, {"below", point.below}, {"above", point.above}});
  return json;
}

}  // namespace

std::string text_of(const Report& report) {
  const Outcome& outcome = report.outcome;
  const bool has_bytes = report.call.operation != Operation::barrier;
  std::string out = line("operation", fmt::format("{}{}", to_string(report.call.operation),
                                                  has_bytes ? " of " + bytes_text(static_cast<double>(report.call.bytes)) : ""));
  out += line("ranks", shape_text(report));
  if (outcome.computed < report.call.ranks) out += line("computed", fmt::format("{} ranks; the others do the same", outcome.computed));
  out += line("algorithm", std::string(outcome.algorithm));
  if (outcome.cut_off.empty()) {
    out += line("time", fmt::format("{}; the first rank ends after {}", time_text(outcome.us), time_text(outcome.first_us)));
  } else {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(detail::silence_limit()).count();
    out +=
        line("time", fmt::format("{} of the ranks never end; the call fails when a peer has been silent for {} s", outcome.cut_off.size(), seconds));
  }
  out += line("rounds", fmt::format("{}", outcome.rounds));
  out += line("messages", fmt::format("{:.6g} of {}", outcome.messages, bytes_text(outcome.bytes)));
  out += line("connections of a rank", fmt::format("{} at most in this call", outcome.connections));
  out += line("memory of a rank", fmt::format("{} beside its buffers", bytes_text(outcome.scratch_bytes)));
  if (!outcome.links.empty()) out += links_text(outcome);
  if (!report.starts.empty()) out += starts_text(report);
  if (report.crossing) out += crossing_text(*report.crossing);
  return out;
}

nlohmann::ordered_json json_of(const Report& report) {
  const Outcome& outcome = report.outcome;
  nlohmann::ordered_json json{{"operation", to_string(report.call.operation)},
                              {"bytes", report.call.bytes},
                              {"ranks", report.call.ranks},
                              {"hosts", report.call.hosts()},
                              {"topology", topology_names[static_cast<std::size_t>(report.options.network.topology)]},
                              {"algorithm", outcome.algorithm},
                              {"us", outcome.us},
                              {"first_us", outcome.first_us},
                              {"rounds", outcome.rounds},
                              {"messages", outcome.messages},
                              {"message_bytes", outcome.bytes},
                              {"connections_per_rank", outcome.connections},
                              {"memory_bytes_per_rank", outcome.scratch_bytes},
                              {"computed_ranks", outcome.computed},
                              {"unfinished_ranks", outcome.cut_off.size()}};
  json["links"] = nlohmann::ordered_json::array();
  for (const LinkUse& use : outcome.links) {
    json["links"].push_back({{"level", use.name},
                             {"links", use.links},
                             {"gbit", use.gbit},
                             {"most_bytes", use.most_bytes},
                             {"all_bytes", use.all_bytes},
                             {"busy", use.busy}});
  }
  for (const auto& [design, start] : report.starts) json["start"][std::string(design)] = json_of(start);
  if (report.crossing) json["crossing"] = json_of(*report.crossing);
  return json;
}

}  // namespace unisono::simulate
