#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_descriptor.h"
#include "launch/hosts/hosts.h"
#include "store/server.h"

namespace unisono::launcher {

/// The launcher's store as the ranks of this host use it in one attempt: the status that each has written last, and what they are told of each
/// other's ends.
class RankStore {
 public:
  /// Makes the connections of the ranks that start together.
  RankStore(const std::string& job_id, int attempt, int first_rank, int ranks);

  /// Returns the rank's end of its connection, by its place on this host.
  int rank_end(std::size_t index) const { return rank_ends_[index].get(); }
  /// Returns the descriptors that this rank must not keep if it does not exec.
  std::vector<int> descriptors_of_others(std::size_t index) const;
  /// Call it when the first ranks have been started, because the server has a thread.
  void serve(const Hosts& hosts, int attempt);
  void close() { server_.reset(); }

  /// A connection of a rank that is started later.
  struct Connection {
    base::FileDescriptor of_store, of_rank;
  };
  /// Throws StartFailed.
  static Connection connect(int rank);
  /// The rank has been started, and its status is that of a new process.
  void adopt(int rank, Connection connection);

  std::string status_of(int rank) const;
  /// Tells the ranks how one of them ended. They see that it is gone, but not always how.
  void note_end(const std::string& name, const std::string& how);
  /// Tells the ranks that meet for the first time of one that will not come.
  void note_first_end(const std::string& text);
  /// Tells whether the other ranks go on without this process.
  bool is_left_out(const std::string& name) const;
  void leave_out(const std::string& name);

 private:
  base::FileDescriptor listening_;
  std::vector<base::FileDescriptor> rank_ends_;  ///< until the ranks have been started
  std::vector<base::FileDescriptor> own_ends_;   ///< until they are served
  std::vector<int> launcher_ends_;               ///< by number, for children that do not exec
  std::unique_ptr<store::StoreServer> server_;
};

}  // namespace unisono::launcher
