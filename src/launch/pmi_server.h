#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_descriptor.h"
#include "launch/poll_set.h"

namespace unisono::launcher {

/// Serves the PMI wire protocol, version 1, to the ranks of MPICH: lines of "name=value" over a descriptor that each rank finds in PMI_FD, with a
/// store of keys and a barrier. All ranks are on this host. The launcher's own loop serves it. Input that is malformed or too long ends the
/// connection of the rank that sent it, and harms no other.
class PmiServer {
 public:
  /// Throws StartFailed where there are no sockets. `job` names the store.
  PmiServer(int ranks, std::string job);

  /// Returns the end that the rank inherits; `started` closes it here.
  int rank_end(int rank) const { return rank_ends_[static_cast<std::size_t>(rank)].get(); }
  /// Adds the launcher's ends, which a child without exec has to close.
  void add_descriptors(std::vector<int>& all, int but_of) const;
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
  void release_barrier();
  static void send(Connection& connection, std::string_view line);

  std::string name_;
  std::vector<base::FileDescriptor> rank_ends_;
  std::vector<Connection> connections_;
  std::map<std::string, std::string, std::less<>> values_;
  std::size_t bytes_ = 0;  ///< the sum of keys and values
};

}  // namespace unisono::launcher
