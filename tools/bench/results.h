#pragma once

#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/rows.h"

namespace unisono::tools {

/// Collects the reports of the sets, round by round. A round during which the hypervisor took the processors away is left out of the figures, unless
/// too few would remain.
class BenchResults {
 public:
  explicit BenchResults(BenchConditions conditions) : conditions_(std::move(conditions)) {}

  const BenchConditions& conditions() const noexcept { return conditions_; }
  /// Names unisono's backend in a set.
  void set_backend(const std::string& set, std::string backend) { backends_[set] = std::move(backend); }
  const std::string& backend(const std::string& set) const { return backends_.at(set); }
  /// `stolen`: the share of the machine's time that other guests got meanwhile.
  void add(const std::string& set, const nlohmann::json& event, double stolen);
  std::vector<BenchRow> rows() const;
  /// Returns the median of the harness's own barrier, which shows in which of its two states the machine was.
  std::optional<double> barrier_ns(const std::string& set) const;
  /// Returns how many rounds have been added.
  std::size_t rounds(const std::string& set) const;
  std::size_t dropped(const std::string& set) const;

 private:
  struct Round {
    double stolen = 0;
    double barrier_ns = 0;
    nlohmann::json blocks;
  };
  std::vector<const Round*> kept(const std::string& set) const;
  std::vector<BenchRow> rows_of(const std::string& set) const;

  BenchConditions conditions_;
  std::map<std::string, std::string> backends_;
  std::vector<std::string> sets_;
  std::map<std::string, std::vector<Round>> rounds_;
};

}  // namespace unisono::tools
