#pragma once

#include <string>
#include <vector>

#include "bench/rows.h"

namespace unisono::tools {

/// Earlier results that new ones are compared with.
class BenchBaseline {
 public:
  /// Reads what an earlier `--json` has written. Throws InvalidArgument where the file is something else.
  explicit BenchBaseline(std::string path);

  /// Throws InvalidArgument if nothing was measured under these conditions in any of these sets.
  void check_has(const BenchConditions& conditions, const std::vector<std::string>& sets) const;
  /// Returns, in lines of 80 columns, which medians and ratios have changed: those whose 95 % intervals have no value in common.
  std::string changes_in(const std::vector<BenchRow>& rows) const;

 private:
  std::string path_;
  std::vector<BenchRow> rows_;
};

}  // namespace unisono::tools
