#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_descriptor.h"
#include "launch/view/rank_facts.h"

// The texts by which launchers tell each other, and `unisono status`, of their ranks.

namespace unisono::launcher {

/// The state of a job on this host, as its launcher tells it.
struct JobSeen {
  std::string job;  ///< its identity on this host
  std::string host;
  int node = 0;
  int world_size = 0;            ///< of all hosts
  int restarts = 0;              ///< of all ranks, so far
  std::vector<RankFacts> ranks;  ///< of this host, by rank: of the attempt under way, or else of the last one
};

/// The ranks of a launcher's job as their records and the system show them. Nothing is asked of the ranks. Any thread may call it.
class JobView {
 public:
  /// `job`: its identity on this host.
  JobView(std::string job, int node, int world_size);

  /// The ranks of the attempt before it are forgotten.
  void begin_attempt(int number);
  /// A rank has been started, whose calls are recorded in this file; null: nowhere. A process that it replaces is forgotten.
  void add(int rank, int pid, std::shared_ptr<const base::FileDescriptor> record);

  /// `calls`: how many of the last calls of each rank are looked at for one that is under way.
  JobSeen look(std::size_t calls = 64) const;

 private:
  struct Rank {
    int rank = -1, pid = 0;
    std::shared_ptr<const base::FileDescriptor> record;
    std::unique_ptr<recorder::RecordReader> reader;  ///< null until the rank has joined
  };
  static RankFacts look_at(Rank& rank, std::size_t calls);

  const std::string job_, host_;
  const int node_, world_size_;
  mutable std::mutex mutex_;  // guards the members below
  int attempt_ = 0;
  mutable std::vector<Rank> ranks_;
};

/// Encodes what is seen of a job's ranks on a host. Of each rank's calls only the one that it shows is kept. Times travel as ages, because the clocks
/// of hosts differ.
std::string encode(const JobSeen& seen);
/// Returns nothing for bytes that are none. The times are those of this process's clock.
std::optional<JobSeen> decode_job(std::string_view bytes);

/// Several of them: of all hosts of a job.
std::string encode(const std::vector<JobSeen>& hosts);
std::optional<std::vector<JobSeen>> decode_hosts(std::string_view bytes);

}  // namespace unisono::launcher
