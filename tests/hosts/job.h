#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "hosts.h"

namespace unisono::testing {

using Variables = std::map<std::string, std::string>;

/// The variables, with more of them or others.
inline Variables with(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

/// Tells whether this build has the plug-in for Gloo.
inline bool has_gloo() {
  return std::filesystem::exists(std::filesystem::path(HOST_RANK).parent_path().parent_path() / "lib" / "libunisono_gloo.so");
}

inline const Variables secret{{"UNISONO_TOKEN", "the secret of these tests"}};

/// Each host has one launcher, `unisono run`.
struct NodeFlags {
  int nodes = 2, node = 0, ranks = 2;
  std::string master = {};
  std::vector<std::string> more = {};  ///< further flags
};

inline std::vector<std::string> node_words(const NodeFlags& flags, const std::vector<std::string>& words) {
  std::vector<std::string> all{"run",
                               "--nnodes",
                               std::to_string(flags.nodes),
                               "--node-rank",
                               std::to_string(flags.node),
                               "--master-addr",
                               flags.master,
                               "-n",
                               std::to_string(flags.ranks),
                               "--grace",
                               "3"};
  all.insert(all.end(), flags.more.begin(), flags.more.end());
  all.emplace_back("--");
  all.insert(all.end(), words.begin(), words.end());
  return unisono_command(all);
}

/// `unisono run` on every host, with two ranks each.
inline std::vector<std::unique_ptr<RunningCommand>> start_job(const Hosts& hosts, int nodes, const std::vector<std::string>& words,
                                                              const std::vector<std::string>& more = {}, const Variables& variables = secret) {
  std::vector<std::unique_ptr<RunningCommand>> job;
  for (int node = 0; node < nodes; ++node) {
    job.push_back(hosts.start(node, node_words({.nodes = nodes, .node = node, .master = hosts.address(0), .more = more}, words), variables));
  }
  return job;
}

/// The environment of a rank or of a launcher, as torchrun, ssh or a script would set it.
inline Variables rank_variables(int rank, int size, const std::string& master, const std::string& port = "29500") {
  return {{"RANK", std::to_string(rank)}, {"WORLD_SIZE", std::to_string(size)}, {"MASTER_ADDR", master}, {"MASTER_PORT", port}, *secret.begin()};
}

}  // namespace unisono::testing
