#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "base/file_descriptor.h"
#include "launch/mpi/mpi_places.h"
#include "launch/process/poll_set.h"

namespace unisono::launcher {

/// Serves PMIx to the ranks of Open MPI, through the process `unisono-pmix`. That process ends with this object, and with this process however that
/// ends. On several hosts each launcher has one, and passes what its ranks tell all others (a fence) on to those of the other hosts.
class PmixHelper {
 public:
  /// Returns the path of its program; empty if this build has none.
  static std::string program();
  /// Returns when the helper serves. Throws StartFailed where it does not.
  PmixHelper(const MpiPlaces& places, const std::string& job, MpiExchange exchange = {});
  ~PmixHelper();
  PmixHelper(const PmixHelper&) = delete;
  PmixHelper& operator=(const PmixHelper&) = delete;

  using Variables = std::vector<std::pair<std::string, std::string>>;
  /// Returns the variables that a rank of this host needs in its environment.
  const Variables& variables(int local_rank) const { return variables_[static_cast<std::size_t>(local_rank)]; }
  void wait_for(PollSet& set);

 private:
  void read_variables();
  void hear();
  /// "fence NAME HOST,HOST TEXT"
  void begin_fence(std::string_view line);
  void tell();

  std::vector<Variables> variables_;
  MpiExchange exchange_;
  pid_t pid_ = -1;
  base::FileDescriptor life_line_;  ///< its standard input
  base::FileDescriptor output_;
  std::string unread_, untold_;
};

}  // namespace unisono::launcher
