#pragma once

#include <mpi.h>

#include <memory>
#include <source_location>
#include <string>
#include <vector>

#include "unisono/detail/mpi_members.h"
#include "unisono/error.h"
#include "unisono/process_group.h"

// Groups of an MPI program's communicators, and communicators of groups, whatever backend carries
// the groups. The program is compiled and linked with its MPI; unisono itself is not.
//
// ```cpp
// MPI_Init(&argc, &argv);
// const auto all = unisono::from_mpi(MPI_COMM_WORLD);       // joins the job, if nobody has yet
// const auto row = unisono::from_mpi(row_communicator);
// unisono::all_reduce(x, unisono::ReduceOp::sum, row);
// MPI_Comm comm = unisono::to_mpi(row);                     // for a library that wants one
// ```

namespace unisono {

namespace detail {

inline void check_mpi(int code, const char* call, const char* operation) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw Error(std::string(call) + " failed: " + std::string(text, static_cast<std::size_t>(length)), {.operation = operation});
}

/// Tells whether this process is between MPI_Init and MPI_Finalize.
inline bool has_mpi() {
  int begun = 0, ended = 0;
  MPI_Initialized(&begun);
  MPI_Finalized(&ended);
  return begun != 0 && ended == 0;
}

class CommunicatorOfProgram : public MpiCommunicator {
 public:
  explicit CommunicatorOfProgram(MPI_Comm comm) : comm_(comm) { check_mpi(MPI_Comm_size(comm, &size_), "MPI_Comm_size", "from_mpi"); }
  int size() const override { return size_; }
  bool is_whole() const override {
    int all = 0;
    check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &all), "MPI_Comm_size", "from_mpi");
    return size_ == all;
  }
  void gather(const void* own, void* all, int bytes) override {
    check_mpi(MPI_Iallgather(own, bytes, MPI_BYTE, all, bytes, MPI_BYTE, comm_, &request_), "MPI_Iallgather", "from_mpi");
  }
  bool is_gathered() override {
    int done = 0;
    check_mpi(MPI_Test(&request_, &done, MPI_STATUS_IGNORE), "MPI_Test", "from_mpi");
    return done != 0;
  }

 private:
  MPI_Comm comm_;
  MPI_Request request_ = MPI_REQUEST_NULL;
  int size_ = 0;
};

}  // namespace detail

/// Returns the group of an MPI communicator's processes, in its order. Collective over the
/// communicator, which stays the program's own and may be freed afterwards.
///
/// The processes are members of one job. If none of them has joined it yet, and they are all of
/// MPI_COMM_WORLD, they join it here as `sync` does. MPI is called from this thread only.
///
/// @throws InvalidArgument on all processes if one has not joined the job, or they belong to
///   different jobs; and for MPI_COMM_NULL, for an intercommunicator, and without MPI_Init
/// @throws Timeout if a process of the communicator does not call within the options' timeout, or
///   the world's. MPI is then still busy with the call
[[nodiscard]] inline ProcessGroup from_mpi(MPI_Comm comm, const GroupOptions& options = {}) {
  const ErrorInfo info{.operation = "from_mpi", .hint = "the members of a communicator call from_mpi between MPI_Init and MPI_Finalize"};
  if (!detail::has_mpi()) throw InvalidArgument("MPI is not initialized in this process", info);
  if (comm == MPI_COMM_NULL) throw InvalidArgument("MPI_COMM_NULL has no processes", info);
  int is_intercommunicator = 0;
  detail::check_mpi(MPI_Comm_test_inter(comm, &is_intercommunicator), "MPI_Comm_test_inter", "from_mpi");
  if (is_intercommunicator != 0) {
    throw InvalidArgument("an intercommunicator connects two groups", {.operation = "from_mpi", .hint = "MPI_Intercomm_merge makes one of them"});
  }
  return detail::group_of_mpi(std::make_unique<detail::CommunicatorOfProgram>(comm), options);
}

/// Returns a new MPI communicator of a group's members, in group order. Collective over the group.
/// The caller frees it with MPI_Comm_free.
///
/// @param tag tells apart communicators that several threads make at the same time, as that of
///   MPI_Comm_create_group does
/// @throws InvalidArgument on all members if MPI is not initialized in one of them, or they are not
///   processes of one MPI_COMM_WORLD
[[nodiscard]] inline MPI_Comm to_mpi(const ProcessGroup& group, int tag = 0, std::source_location where = std::source_location::current()) {
  int rank = -1, processes = 0;
  if (detail::has_mpi()) {
    detail::check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank", "to_mpi");
    detail::check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &processes), "MPI_Comm_size", "to_mpi");
  }
  const std::vector<int> ranks = detail::ranks_in_mpi(group, rank, processes, where);
  MPI_Group all = MPI_GROUP_NULL, members = MPI_GROUP_NULL;
  MPI_Comm comm = MPI_COMM_NULL;
  detail::check_mpi(MPI_Comm_group(MPI_COMM_WORLD, &all), "MPI_Comm_group", "to_mpi");
  const int included = MPI_Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &members);
  const int created = included == MPI_SUCCESS ? MPI_Comm_create_group(MPI_COMM_WORLD, members, tag, &comm) : included;
  MPI_Group_free(&all);
  if (members != MPI_GROUP_NULL) MPI_Group_free(&members);
  detail::check_mpi(created, "MPI_Comm_create_group", "to_mpi");
  return comm;
}

}  // namespace unisono
