#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace unisono::launcher {

/// A host of a job of several, as its launchers know it.
struct JobHost {
  int number = 0;          ///< of its launcher
  int ranks = 0;           ///< that it runs
  int first_rank = 0;      ///< of these: the places in the job
  bool is_late = false;    ///< it came while the job ran
  bool is_gone = false;    ///< its launcher is lost, or has left before the end
  std::string where = {};  ///< "host:pid" of its launcher
};

/// Writes the hosts of a job for the other launchers.
std::string encode_roster(const std::vector<JobHost>& hosts);
/// Throws ProtocolError where the text is no such list.
std::vector<JobHost> decode_roster(const std::string& text);

/// The hosts of a job, which may change while it runs. Any thread may call.
class HostRoster {
 public:
  std::vector<JobHost> all() const;
  void set(std::vector<JobHost> hosts);
  void add(JobHost host);
  /// Returns false where it was gone before.
  bool note_gone(int number);
  /// Returns how many are not gone.
  int present() const;
  std::optional<JobHost> find(int number) const;
  /// Returns the number of the host that has this rank; 0 where none has.
  int host_of(int rank) const;

 private:
  mutable std::mutex mutex_;
  std::vector<JobHost> hosts_;  // by number
};

/// The state of a host's ranks, which its launcher tells the others in a job that goes on without lost ranks.
struct HostTally {
  int members = 0;                      ///< ranks that live in the group of all
  int well = 0;                         ///< members that have ended well
  int last_lost = -1;                   ///< the rank that was lost last
  std::vector<std::string> names = {};  ///< of the last process in each of its places

  bool operator==(const HostTally&) const = default;
};

std::string encode_tally(const HostTally& tally);
/// Throws ProtocolError where the text is no tally.
HostTally decode_tally(const std::string& text);

}  // namespace unisono::launcher
