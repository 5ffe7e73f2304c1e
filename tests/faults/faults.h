#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "running_command.h"

namespace unisono::testing {

using Variables = std::map<std::string, std::string>;

/// `unisono run -n RANKS -- fault_rank ARGUMENTS`.
std::vector<std::string> faulty_job(int ranks, std::vector<std::string> arguments, std::vector<std::string> flags = {});
std::vector<std::string> faulty_rank(std::vector<std::string> arguments);

/// "a,b,c": as many hosts as ranks, for TEST_HOSTS.
std::string one_host_each(int ranks);

/// Ranks that find each other without a launcher: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT for env://, else the method with rank and size.
class DirectJob {
 public:
  enum class Method { env, tcp, file };
  DirectJob(Method method, int ranks, std::vector<std::string> arguments, Variables more = {});
  RunningCommand& operator[](int rank) { return *ranks_[static_cast<std::size_t>(rank)]; }
  int size() const { return static_cast<int>(ranks_.size()); }
  const std::string& file() const { return file_; }

 private:
  TemporaryFolder folder_;
  std::string file_;
  std::vector<std::unique_ptr<RunningCommand>> ranks_;
};

/// The output of a rank: that of all ranks under a launcher, its own where it was started directly.
std::vector<std::string> lines_of_rank(const RunningCommand& job, int rank);
/// The rank's only line that begins so, without that beginning; a failure where there is none or more.
std::string line_of(const std::vector<std::string>& lines, const std::string& beginning);

/// Returns the sizes of the groups in the account that a member of an elastic job gives at the end, "6,4,6". Newcomers may be taken in one after
/// another: sizes in the middle of a growth are left out.
std::string sizes_in(const std::string& account);

/// The time at which an elastic job that cannot come to its end says so, and ends: two minutes from now.
Variables end_of_training();
/// The longest time that such a job may take to its end: behind that one.
constexpr std::chrono::seconds longest_training{150};

pid_t pid_of(const RunningCommand& job, int rank);
/// Kills a stopped rank once these others have ended by themselves, so that nobody waits for the launcher, which would do so after its grace. The
/// job's first cause is the kill then.
void kill_after_the_others(RunningCommand& job, int stopped, const std::vector<int>& others);
std::string job_id(const RunningCommand& job);
void expect_nothing_left(const std::string& id);
/// No rank ended by a crash; the launcher's report would name the signal.
void expect_no_crash(const RunningCommand& job);
/// The lines of every rank after its first error: five later calls threw the same.
void expect_later_calls_threw_the_same(const std::vector<std::string>& lines);

}  // namespace unisono::testing
