#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/job/job_parts.h"
#include "launch/job/rank_records.h"
#include "launch/job/rank_store.h"
#include "launch/mpi/mpi_world.h"
#include "launch/output/output.h"
#include "launch/process/child.h"
#include "launch/process/host.h"

namespace unisono::launcher {

/// Starts the processes of one attempt's ranks: each gets its variables, its connection to the launcher's store, a file for its record, and pipes or
/// terminals for its output.
class RankStarter {
 public:
  RankStarter(const JobParts& parts, int attempt, OutputMultiplexer& output, const RankStore& store, RankRecords& records);

  /// A process that is to be started.
  struct Order {
    std::size_t index = 0;  ///< of its place on this host
    std::string name = {};  ///< RankEnd::name
    int newcomer = 0;       ///< it is the n-th that is started while the job runs; 0: it is one of the start
    int store_fd = -1;      ///< its end of the connection to the store
  };
  /// `to_close`: further descriptors that a child without exec has to close. Throws StartFailed.
  Child start(const Order& order, std::vector<int> to_close);
  /// Call it when all ranks of the start have been started.
  void started();
  void wait_for(PollSet& set);

 private:
  void set_variables(const Order& order, EnvironmentBlock& environment) const;
  void add_descriptors_to_close(std::size_t index, std::vector<int>& all) const;

  const JobParts& parts_;
  const int attempt_;
  OutputMultiplexer& output_;
  const RankStore& store_;
  RankRecords& records_;
  std::optional<PortReservation> port_;
  int master_port_;
  std::unique_ptr<MpiWorld> mpi_;  ///< null unless the backend is mpi
};

}  // namespace unisono::launcher
