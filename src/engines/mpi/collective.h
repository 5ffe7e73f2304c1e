#pragma once

#include <mpi.h>

#include <cstddef>
#include <vector>

#include "engines/mpi/library.h"
#include "unisono/call.h"

namespace unisono::engines::mpi {

/// A group's communicator, and this process's rank in it.
struct Members {
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0, size = 1;
};

/// The two forms of a collective's MPI calls, which take the same arguments.
struct Blocking {
  template <class B, class I, class... A>
  void operator()(B* blocking, I*, const char* name, A... arguments) const {
    check(blocking(arguments...), name);
  }
};
struct Nonblocking {
  std::vector<MPI_Request>& requests;
  template <class B, class I, class... A>
  void operator()(B*, I* nonblocking, const char* name, A... arguments) const {
    MPI_Request request = MPI_REQUEST_NULL;
    check(nonblocking(arguments..., &request), name);
    requests.push_back(request);
  }
};

/// A collective as MPI calls, most often a single one. MPI counts in int: longer buffers are cut into pieces, or travel as a derived datatype.
/// Calls in place are in place for MPI as well; buffers that overlap in a way that MPI does not allow are staged.
class Collective {
 public:
  /// `call` and the argument of `issue` must stay until `finish` has returned.
  Collective(const Members& members, const CollectiveCall& call) : members_(members), call_(call) {}
  ~Collective();
  Collective(const Collective&) = delete;
  Collective& operator=(const Collective&) = delete;

  /// Tells whether MPI carries the operation out.
  static bool has(Operation operation);
  /// Tells whether there are functions that combine elements by `op`.
  static bool has(ReduceOp op);

  template <class How>
  void issue(const How& how);
  /// Completes the result when all of these calls are done.
  void finish();

 private:
  template <class How>
  static constexpr auto own_operations();
  void barrier(const auto& how);
  void reduce_all(const auto& how);
  void reduce(const auto& how);
  void reduce_to(const auto& how, int root, const std::byte* in, std::byte* out, std::size_t count);
  void scan(const auto& how);
  void reduce_scatter(const auto& how);
  void broadcast(const auto& how);
  void move_blocks(const auto& how);
  void exchange(const auto& how);

  /// Returns the elements of rank `r` in a block operation with counts or without.
  std::size_t block(int r) const { return block(call_.counts, r); }
  std::size_t block(const Counts& counts, int r) const { return counts.size() != 0 ? counts[static_cast<std::size_t>(r)] : call_.count; }
  std::size_t total() const;
  bool is_root() const { return members_.rank == call_.root; }
  std::size_t bytes(std::size_t elements) const { return elements * size_of(call_.in.dtype()); }
  std::byte* in() const { return static_cast<std::byte*>(call_.in.data()); }
  std::byte* out() const { return static_cast<std::byte*>(call_.out.data()); }
  /// Computes lengths and offsets of all blocks as ints; `total()` must fit.
  void lay_out();

  /// The elements for or from one rank, in an exchange.
  struct Part {
    int count = 0, offset = 0;
    MPI_Datatype type;
  };
  /// Describes `count` elements from the `begin`th on, seen from `shift` bytes behind the first.
  Part part(std::size_t begin, std::size_t count, int shift);
  void add(bool sends, const Part& part);

  const Members& members_;
  const CollectiveCall& call_;
  std::vector<int> counts_, offsets_;
  std::vector<int> send_counts_, send_offsets_, recv_counts_, recv_offsets_;
  std::vector<MPI_Datatype> send_types_, recv_types_, made_types_;
  std::vector<std::byte> input_, staged_;
};

extern template void Collective::issue(const Blocking&);
extern template void Collective::issue(const Nonblocking&);

}  // namespace unisono::engines::mpi
