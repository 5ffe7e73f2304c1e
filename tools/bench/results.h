#pragma once

#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/rows.h"
#include "bench/setups.h"

namespace unisono::tools {

/// Collects the reports of the sets, round by round. A round during which the hypervisor took the processors away is left out of the figures, unless
/// too few would remain.
class BenchResults {
 public:
  explicit BenchResults(BenchConditions conditions) : conditions_(std::move(conditions)) {}

  const BenchConditions& conditions() const noexcept { return conditions_; }
  /// Adds a set, in which this is unisono's backend. The functions below know only those that were added.
  void add_set(const BenchSetup& setup, std::string backend) {
    sets_.push_back({.name = setup.name, .backend = std::move(backend), .versions = setup.versions});
  }
  const std::string& backend(const std::string& set) const { return sets_[place_of(set)].backend; }
  /// `stolen`: the share of the machine's time that other guests got meanwhile.
  void add(const std::string& set, const nlohmann::json& event, double stolen);
  std::vector<BenchRow> rows() const;
  /// Returns the median of the harness's own barrier, which shows in which of its two states the machine was.
  std::optional<double> barrier_ns(const std::string& set) const;
  /// Returns what the ranks have counted in the last round, by rank; empty where they do not count.
  const nlohmann::json& counts(const std::string& set) const { return sets_[place_of(set)].counts; }
  /// Returns how many rounds have been added.
  std::size_t rounds(const std::string& set) const { return sets_[place_of(set)].rounds.size(); }
  std::size_t dropped(const std::string& set) const;

 private:
  struct Round {
    double stolen = 0;
    double barrier_ns = 0;
    nlohmann::json blocks;
  };
  struct Set {
    std::string name, backend;
    std::map<std::string, std::string> versions;  ///< of its peers
    std::vector<Round> rounds = {};
    nlohmann::json counts = {};
  };
  std::size_t place_of(const std::string& set) const;
  static std::vector<const Round*> kept(const Set& set);
  void add_rows(const Set& set, std::vector<BenchRow>& rows) const;

  BenchConditions conditions_;
  std::vector<Set> sets_;
};

}  // namespace unisono::tools
