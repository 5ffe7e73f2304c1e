#pragma once

#include <chrono>
#include <set>
#include <string>
#include <vector>

#include "faults.h"

namespace unisono::testing {

/// How a job of `unisono run` is to end in which something went wrong.
struct Ending {
  int ranks = 4;
  std::vector<int> culprits = {1};            ///< one of whom each survivor names, and the launcher
  std::string error = "PeerFailed";           ///< of the survivors
  std::set<std::string> causes = {"killed"};  ///< of PeerFailed
  int code = 137;
  bool has_joined = true;  ///< the group was formed: errors have a host, a group and a number, and later calls throw the same
};

/// Waits for the end of the job and checks what holds after every fault: I1 everybody leaves its call in time; I2 each survivor's error names
/// operation, group, number, its own rank, and the culprit with its host; I3 no result was wrong; I4 nobody ended by a crash that was not the fault
/// itself; I5 the exit code is the cause's, and the launcher names the first cause; I6 no process, no shared memory, no socket and no listener is
/// left; I7 a new job starts at once; I8 descriptors of the survivors are few.
void expect_ending(RunningCommand& job, const Ending& ending, std::chrono::seconds limit = std::chrono::seconds(50));

/// I6 and I7.
void expect_clean_host(const std::string& job_id);

}  // namespace unisono::testing
