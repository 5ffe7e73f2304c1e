#pragma once

#include <functional>
#include <iosfwd>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace unisono::launcher {

/// The fences of Open MPI's ranks in unisono-pmix: all ranks that take part learn what each of them has said. Where they are on several hosts, the
/// data of this host's ranks go to the launcher as a line, and the launcher answers with those of all hosts.
class Fences {
 public:
  /// `ranks`: of each host. `to_launcher`: where lines are written.
  Fences(int own_host, std::vector<int> ranks, std::ostream& to_launcher) : own_(own_host), ranks_(std::move(ranks)), out_(to_launcher) {}

  using Done = std::function<void(std::string_view data)>;
  /// All ranks of this host have come to a fence. `among`: the ranks that take part, on all hosts; empty: all. `done` is called at once where they
  /// are all on this host, else by `hear`. Any thread may call.
  void come(std::vector<int> among, std::string_view data, Done done);
  /// Takes a line of the launcher. One that is no answer to a fence changes nothing.
  void hear(const std::string& line);

 private:
  std::vector<int> hosts_of(const std::vector<int>& among) const;

  const int own_;
  const std::vector<int> ranks_;
  std::ostream& out_;
  std::mutex mutex_;
  std::map<std::string, int> numbers_;   ///< of the fences of each set of ranks so far
  std::map<std::string, Done> waiting_;  ///< by name
};

}  // namespace unisono::launcher
