#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "base/file_descriptor.h"

namespace unisono::launcher {

/// Serves PMIx to the ranks of Open MPI, through the process `unisono-pmix`. That process ends with this object, and with this process however that
/// ends.
class PmixHelper {
 public:
  /// Returns the path of its program; empty if this build has none.
  static std::string program();
  /// Returns when the helper serves. Throws StartFailed where it does not.
  PmixHelper(int ranks, const std::string& job);
  ~PmixHelper();
  PmixHelper(const PmixHelper&) = delete;
  PmixHelper& operator=(const PmixHelper&) = delete;

  using Variables = std::vector<std::pair<std::string, std::string>>;
  /// Returns the variables that a rank needs in its environment.
  const Variables& variables(int rank) const { return variables_[static_cast<std::size_t>(rank)]; }

 private:
  void read_variables(base::FileDescriptor from);

  std::vector<Variables> variables_;
  pid_t pid_ = -1;
  base::FileDescriptor life_line_;
};

}  // namespace unisono::launcher
