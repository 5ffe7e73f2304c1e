#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "launch/job/job_parts.h"
#include "launch/job/ranks.h"
#include "launch/job_options.h"
#include "launch/job/mpi_ranks.h"
#include "launch/output/output.h"
#include "launch/process/child.h"
#include "launch/process/host.h"
#include "recorder/reader.h"

namespace unisono::launcher {

/// Starts the processes of one attempt's ranks: each gets its variables, its connection to the launcher's store, a file for its record, and pipes or
/// terminals for its output. The files in which ranks record their calls are kept here, because they outlast the ranks.
class RankStarter {
 public:
  RankStarter(const JobParts& parts, int attempt, OutputMultiplexer& output, RankStore& store, RankProcesses& processes, RankEnds& ends);

  /// Starts the ranks of the start. Throws StartFailed.
  void start_all();
  /// Starts another process of that name in a place, the n-th after that of the start. Throws StartFailed.
  void start_newcomer(std::size_t index, const std::string& name, int number);
  /// The process in this place is lost for good. What it has left running would be in the way of the next one.
  void lose(std::size_t index);
  void wait_for(PollSet& set);

  RankProcesses& processes() const { return processes_; }
  RankEnds& ends() const { return ends_; }

  /// Notes in its record that the rank in this place has ended.
  void note_ended(std::size_t index) const;
  /// Writes the record of a rank that could not do so itself.
  void keep_record(std::size_t index) const;
  /// Returns what the ranks have recorded, without their calls.
  std::vector<recorder::RankSeen> read_records() const;

 private:
  /// A process that is to be started.
  struct Order {
    std::size_t index = 0;  ///< of its place on this host
    std::string name = {};  ///< RankEnd::name
    int newcomer = 0;       ///< it is the n-th that is started while the job runs; 0: it is one of the start
    int store_fd = -1;      ///< its end of the connection to the store
  };
  using Record = std::shared_ptr<const base::FileDescriptor>;

  void start(const Order& order);
  /// Makes a file for a process of that name. Throws StartFailed if there can be no trace.
  Record make_record(int rank, const std::string& name) const;
  void set_variables(const Order& order, EnvironmentBlock& environment) const;

  const JobParts& parts_;
  const int attempt_;
  OutputMultiplexer& output_;
  RankStore& store_;
  RankProcesses& processes_;
  RankEnds& ends_;
  std::vector<Record> records_;  ///< by place
  std::optional<PortReservation> port_;
  int master_port_;
  std::unique_ptr<MpiRanks> mpi_;  ///< null unless the backend is mpi
};

}  // namespace unisono::launcher
