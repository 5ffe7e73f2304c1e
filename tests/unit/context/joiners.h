#pragma once

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "context/engines.h"
#include "unisono/error.h"

namespace unisono::context {

/// A world that has yet to agree. `machines`: of each rank.
struct Joiners {
  explicit Joiners(std::vector<int> machines) : machines_(std::move(machines)) {
    topology_.machines = *std::max_element(machines_.begin(), machines_.end()) + 1;
    topology_.host_names = base::RepeatedTexts(machines_.size(), [&](std::size_t r) { return "host" + std::to_string(machines_[r]); });
    topology_.hosts = machines_;
  }

  Selection select(int rank, const std::string& backend, const std::string& variable = {}, Launcher launcher = Launcher::none,
                   std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
    InitOptions options;
    options.backend = backend;
    std::map<std::string, std::string, std::less<>> variables;
    if (!variable.empty()) variables["UNISONO_BACKEND"] = variable;
    const base::Deadline deadline(timeout);
    const Joining joining{rank, static_cast<int>(machines_.size()), *store_, deadline, rank};
    return select_engines(options, base::Environment(std::move(variables)), topology_, launcher, joining);
  }
  /// As every rank has it that asks for what stands there; an error as its text.
  std::vector<std::string> all(const std::vector<std::string>& asked) {
    std::vector<std::string> hosts(asked.size());
    std::vector<std::jthread> ranks;
    for (std::size_t r = 0; r < asked.size(); ++r) {
      ranks.emplace_back([&, r] {
        try {
          hosts[r] = select(static_cast<int>(r), asked[r]).host;
        } catch (const Error& error) {
          hosts[r] = error.message();
        }
      });
    }
    ranks.clear();
    return hosts;
  }

  std::vector<int> machines_;
  Topology topology_;
  std::shared_ptr<Store> store_ = std::make_shared<MemoryStore>();
};

}  // namespace unisono::context
