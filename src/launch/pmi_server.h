#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_descriptor.h"
#include "launch/poll_set.h"

namespace unisono::launcher {

/// What MPICH asks of whoever has started its ranks: version 1 of the PMI wire protocol. Lines of "name=value" over a descriptor that each rank finds
/// in PMI_FD; a store of keys, and a barrier. All ranks are on this host. Served from the launcher's own loop; what a rank sends can hurt nobody
/// but itself: what is not understood, or too long, ends its connection.
class PmiServer {
 public:
  /// StartFailed where there are no sockets. `job`: names the store.
  PmiServer(int ranks, std::string job);

  /// The rank's end, which it is to inherit; closed here by `started`.
  int rank_end(int rank) const { return rank_ends_[static_cast<std::size_t>(rank)].get(); }
  /// Our ends, which a child that does not exec has to close.
  void add_descriptors(std::vector<int>& all, int but_of) const;
  void started() { rank_ends_.clear(); }

  void wait_for(PollSet& set);

 private:
  struct Connection {
    base::FileDescriptor fd;
    std::string unread = {};  ///< the begin of a line
    bool in_barrier = false;
  };
  void serve(Connection& connection);
  /// One line of a rank; the answer. "" where there is none yet.
  std::string answer(Connection& connection, std::string_view line);
  void release_barrier();
  static void send(Connection& connection, std::string_view line);

  std::string name_;
  std::vector<base::FileDescriptor> rank_ends_;
  std::vector<Connection> connections_;
  std::map<std::string, std::string, std::less<>> values_;
  std::size_t bytes_ = 0;  ///< of keys and values
};

}  // namespace unisono::launcher
