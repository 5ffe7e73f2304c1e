#pragma once

#include <cstddef>
#include <iosfwd>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/operations.h"
#include "harness/statistics.h"

namespace unisono::tools {

/// A line of the results: one implementation at one size, within one process set.
struct BenchRow {
  std::string set = {};
  bench::Operation operation = bench::Operation::barrier;
  std::string impl = {};
  std::size_t bytes = 0;
  double median_us = 0;
  double p99_us = 0;
  double min_us = 0;
  double spread_us = 0;                       ///< between the quartiles of the rounds
  std::optional<bench::Interval> ratio = {};  ///< its time divided by unisono's, round by round
  // Of one rank's process for each call, medians over the rounds.
  double voluntary = 0;
  double involuntary = 0;
  double processor_us = 0;
};

/// Collects the reports of the sets, round by round. A round during which the hypervisor took the processors away is left out of the figures, unless
/// too few would remain.
class BenchResults {
 public:
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

  std::vector<std::string> sets_;
  std::map<std::string, std::vector<Round>> rounds_;
};

/// The facts common to all rows.
struct BenchFacts {
  int ranks = 1;
  int hosts = 1;
  std::string dtype = {};
  std::string buffers = {};
  std::string data = {};
  std::map<std::string, std::string> backends = {};  ///< unisono's backend, by set
};

/// Returns the JSON documented in api.md, with the figures of its section 12.
nlohmann::json to_json(const std::vector<BenchRow>& rows, const BenchFacts& facts);
/// Prints one set in 80 columns. The roofline is left out where it is no bound: where a copy stays within a core's own cache of `cache_bytes`, which
/// cannot hold what other ranks wrote, and for operations that move less than a copy on all ranks.
void print_table(std::ostream& out, const std::vector<BenchRow>& rows, const BenchFacts& facts, const std::string& set, std::size_t cache_bytes);
/// Returns one line about all rows: "summary: …".
std::string summary_of(const std::vector<BenchRow>& rows, const BenchFacts& facts);

}  // namespace unisono::tools
