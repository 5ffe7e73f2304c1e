#pragma once

#include <memory>
#include <vector>

#include "unisono/export.h"
#include "unisono/process_group.h"

// unisono/mpi.h stands on these. The library knows no MPI: the program is compiled for one.

namespace unisono::detail {

/// A communicator, as far as the library asks for it.
class UNISONO_API MpiCommunicator {
 public:
  virtual ~MpiCommunicator();
  /// Returns the number of processes.
  virtual int size() const = 0;
  /// Tells whether they are all processes of MPI_COMM_WORLD.
  virtual bool is_whole() const = 0;
  /// Begins to gather the bytes of all processes on all. The memory lives until `is_gathered`
  /// returned true. One at a time.
  virtual void gather(const void* own, void* all, int bytes) = 0;
  /// Tells, without waiting, whether they are gathered.
  virtual bool is_gathered() = 0;
};

/// Forms the group of a communicator's processes; see from_mpi.
UNISONO_API ProcessGroup group_of_mpi(std::unique_ptr<MpiCommunicator> communicator, const GroupOptions& options);

/// Returns the ranks of a group's members in MPI_COMM_WORLD, in group order. Collective over the
/// group; each member tells its own rank there, -1 without MPI, and the number of processes.
UNISONO_API std::vector<int> ranks_in_mpi(const ProcessGroup& group, int own_rank, int processes, std::source_location where);

}  // namespace unisono::detail
