#pragma once

#include <nlohmann/json.hpp>

#include <algorithm>
#include <compare>
#include <cstddef>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "harness/operations.h"
#include "harness/statistics.h"

namespace unisono::tools {

inline constexpr std::string_view roofline_impl = "roofline";
/// Stands for memory of devices among the buffers of a result.
inline constexpr std::string_view device_buffers = "cuda";

/// What two results have to share to be compared. One run has one of them.
struct BenchConditions {
  int ranks = 1;
  int hosts = 1;
  std::string dtype = {};
  std::string buffers = {};
  std::string data = {};
  auto operator<=>(const BenchConditions&) const = default;
};

/// A line of the results: one implementation at one size, within one process set.
struct BenchRow {
  std::string set = {};
  BenchConditions conditions = {};
  bench::Operation operation = bench::Operation::barrier;
  std::string impl = {};
  std::string backend = {};  ///< unisono's; of others their own name
  std::string version = {};  ///< of another library
  std::string cores = {};    ///< where they were, as `cores_of` says; empty: an older result does not tell
  double flag_ns = 0;        ///< the bench's own barrier, of the set
  std::size_t bytes = 0;
  bench::Interval time_us = {};  ///< the median of the rounds and its 95 % interval
  double p99_us = 0;
  double min_us = 0;
  double spread_us = 0;                       ///< between the quartiles of the rounds
  std::optional<bench::Interval> ratio = {};  ///< its time divided by unisono's, round by round
  // Of one rank's process for each call, medians over the rounds.
  double voluntary = 0;
  double involuntary = 0;
  double processor_us = 0;
};

inline constexpr std::string_view near_cores = "near", cores_between = "between", distant_cores = "distant", shared_cores = "shared";
/// Returns where the cores of so many ranks are, by the time of the bench's own barrier. Ranks that outnumber the cores share them.
std::string_view cores_of(double flag_ns, int ranks);
/// Returns "2 ranks, f32, private buffers, static data"; with `hosts` where there are several.
std::string text_of(const BenchConditions& conditions);
/// Returns "all_reduce of 8 B", or the operation alone where it moves no bytes.
std::string cell_text(bench::Operation operation, std::size_t bytes);
/// Returns "2.00 [1.90–2.10]": a ratio and its 95 % interval, of three digits each.
std::string ratio_text(const bench::Interval& ratio);
/// Return texts for columns: of at most 10, 5 and 8 letters.
std::string size_text(std::size_t bytes);
std::string three_digits(double value);
std::string microseconds(double us);
double gigabytes_per_second(const BenchRow& row);
/// Returns how many messages one pair of ranks exchanges in a second, in both directions together.
double messages_per_second(const BenchRow& row);
/// Returns the factor of the row's busbw, which is 1 for the roofline.
double bus_factor_of(const BenchRow& row);
/// Tells whether the row is of another library, and not of a part or a mode of unisono.
bool is_of_peer(const BenchRow& row);

/// Returns the elements together of which the function returns the same, in the order in which that first appears.
template <class Element, class Key>
std::vector<std::vector<Element>> grouped(const std::vector<Element>& elements, const Key& key_of) {
  std::vector<std::vector<Element>> groups;
  for (const Element& element : elements) {
    auto found = std::ranges::find_if(groups, [&](const auto& group) { return key_of(group.front()) == key_of(element); });
    if (found == groups.end()) found = groups.insert(found, std::vector<Element>());
    found->push_back(element);
  }
  return groups;
}

/// Returns the JSON documented in docs/design/bench-json.md.
nlohmann::json to_json(const std::vector<BenchRow>& rows);
/// Reads what `--json` has written. Throws InvalidArgument, with the file and what is wrong in it, where it is something else.
std::vector<BenchRow> read_rows(const std::string& path);

/// Earlier results that new ones are compared with.
class BenchBaseline {
 public:
  /// Reads what an earlier `--json` has written. Throws InvalidArgument where the file is something else.
  explicit BenchBaseline(std::string path);

  /// Throws InvalidArgument if nothing was measured under these conditions in any of these sets.
  void check_has(const BenchConditions& conditions, const std::vector<std::string>& sets) const;
  /// Returns, in lines of 80 columns, which medians and ratios have changed: those whose 95 % intervals have no value in common. Tells as well where
  /// the cores or the other libraries' versions are not the same.
  std::string changes_in(const std::vector<BenchRow>& rows) const;

 private:
  std::string path_;
  std::vector<BenchRow> rows_;
};

}  // namespace unisono::tools
