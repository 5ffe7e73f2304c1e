#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "base/file_descriptor.h"

namespace unisono::launcher {

/// What Open MPI asks of whoever has started its ranks (PMIx), served by the process `unisono-pmix`. It ends with this object, and with this
/// process however that ends.
class PmixHelper {
 public:
  /// Where its program is; empty: this build has none.
  static std::string program();
  /// Returns when it serves. StartFailed where it does not.
  PmixHelper(int ranks, const std::string& job);
  ~PmixHelper();
  PmixHelper(const PmixHelper&) = delete;
  PmixHelper& operator=(const PmixHelper&) = delete;

  using Variables = std::vector<std::pair<std::string, std::string>>;
  /// What a rank must find in its environment.
  const Variables& variables(int rank) const { return variables_[static_cast<std::size_t>(rank)]; }

 private:
  void read_variables(base::FileDescriptor from);

  std::vector<Variables> variables_;
  pid_t pid_ = -1;
  base::FileDescriptor life_line_;
};

}  // namespace unisono::launcher
