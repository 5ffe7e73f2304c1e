#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/file_descriptor.h"
#include "launch/mpi/mpi_places.h"
#include "launch/process/poll_set.h"

namespace unisono::launcher {

/// Serves the PMI wire protocol, version 1, to the ranks of MPICH: lines of "name=value" over a descriptor that each rank finds in PMI_FD, with a
/// store of keys and a barrier. The launcher's own loop serves it. Input that is malformed or too long ends the connection of the rank that sent it,
/// and harms no other. On several hosts each launcher serves its own ranks, and the launchers exchange at each barrier what ranks have put since the
/// last.
class PmiServer {
 public:
  /// Throws StartFailed where there are no sockets. `job` names the store.
  PmiServer(const MpiPlaces& places, std::string job, MpiExchange exchange = {});

  /// Returns the end that a rank of this host inherits; `started` closes it here.
  int rank_end(int local_rank) const { return rank_ends_[static_cast<std::size_t>(local_rank)].get(); }
  void started() { rank_ends_.clear(); }

  void wait_for(PollSet& set);

 private:
  struct Connection {
    base::FileDescriptor fd;
    std::string unread = {};  ///< the beginning of a line
    bool in_barrier = false;
  };
  void serve(Connection& connection);
  /// Returns the answer to one line of a rank; "" where it comes later.
  std::string answer(Connection& connection, std::string_view line);
  void come_to_barrier();
  void release_barrier();
  /// Takes what the ranks of another host have put.
  void take(std::string_view put);
  static void send(Connection& connection, std::string_view line);

  std::string name_;
  int world_size_;
  std::vector<int> hosts_;  ///< their indices
  MpiExchange exchange_;
  int barriers_ = 0;
  base::ByteWriter fresh_;  ///< keys and values that the other hosts do not have yet
  std::vector<base::FileDescriptor> rank_ends_;
  std::vector<Connection> connections_;
  std::map<std::string, std::string, std::less<>> values_;
  std::size_t bytes_ = 0;  ///< the sum of keys and values
};

}  // namespace unisono::launcher
