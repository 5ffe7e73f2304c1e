#pragma once

#include <istream>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

#include "launch/process/first_cause.h"

namespace unisono::launcher {

/// Writes the fields of a text that launchers read, with blanks between them. A flag and an enumerator are numbers.
template <class... Fields>
std::string write_fields(const std::tuple<Fields...>& fields) {
  std::string text;
  const auto write = [&text]<class Field>(const Field& field) {
    if (!text.empty()) text += ' ';
    if constexpr (std::is_enum_v<Field> || std::is_same_v<Field, bool>) text += std::to_string(static_cast<int>(field));
    else text += fmt::format("{}", field);
  };
  std::apply([&](const auto&... each) { (write(each), ...); }, fields);
  return text;
}
/// Reads them back. Returns false if one of them is not there.
template <class... Fields>
bool read_fields(std::istream& text, const std::tuple<Fields&...>& fields) {
  const auto read = [&text]<class Field>(Field& field) {
    if constexpr (std::is_enum_v<Field> || std::is_same_v<Field, bool>) {
      int number = 0;
      text >> number;
      field = static_cast<Field>(number);
    } else {
      text >> field;
    }
  };
  std::apply([&](auto&... each) { (read(each), ...); }, fields);
  return static_cast<bool>(text);
}
/// Tells whether the text can be a field.
bool is_one_word(std::string_view text);

/// The keys under which the launchers of several hosts speak of one attempt, in the store of host 0.
struct AttemptKeys {
  int attempt = 0;

  std::string of(std::string_view name) const { return fmt::format("launchers/attempt/{}/{}", attempt, name); }
  std::string trouble() const { return of("trouble"); }                          ///< the first one
  std::string ends(int host) const { return of(fmt::format("ends/{}", host)); }  ///< how its ranks have ended; empty: its launcher is lost
  std::string tally(int host) const { return of(fmt::format("tally/{}", host)); }
  std::string first_end() const { return of("first-end"); }
  std::string ended() const { return of("ended"); }  ///< counts the processes that have ended
  /// The key that says how a process has ended. The ranks look for it where they form a group anew (rendezvous/growth.h).
  std::string end(std::string_view name) const { return fmt::format("attempt/{}/unisono/exit/{}", attempt, name); }
  /// The key of a process that the others have left out.
  std::string lost(std::string_view name) const { return fmt::format("attempt/{}/unisono/lost/{}", attempt, name); }
  static constexpr const char* restarts = "launchers/restarts";  ///< counts the processes that were started in the place of lost ones
};
/// The key under which a launcher that is gone is entered, with the reason.
inline std::string goodbye_key(int host) { return fmt::format("launchers/bye/{}", host); }

/// The numbers and names on which the launchers of a job have agreed. A lone launcher has them from its options.
struct JobTerms {
  int node = 0;  ///< the number of this host
  int first_rank = 0, world_size = 0;
  int least_ranks = 0;        ///< the job goes on while so many ranks live, on all hosts together; 0: every failure ends it
  int max_restarts = 0;       ///< the number given to node 0
  int master_port = 0;        ///< on several hosts: a free port on node 0, for programs of other libraries
  std::string address = {};   ///< of node 0
  std::string job_name = {};  ///< all launchers of the job use the same
  bool is_open = false;       ///< hosts may come and go while the job runs: --nnodes MIN:MAX
  bool is_late = false;       ///< the job ran already when this host came
};

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
/// Throws ProtocolError if the text is no such list.
std::vector<JobHost> decode_roster(const std::string& text);

/// The hosts of a job, which may change while it runs. Any thread may call.
class HostRoster {
 public:
  std::vector<JobHost> all() const;
  void set(std::vector<JobHost> hosts);
  void add(JobHost host);
  void note_gone(int number);
  /// Returns how many are not gone.
  int present() const;
  std::optional<JobHost> find(int number) const;
  /// Returns the number of the host that has this rank; 0 if none has.
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
/// Throws ProtocolError if the text is no tally.
HostTally decode_tally(const std::string& text);

/// A report of one launcher that makes the others end their ranks, too.
struct Trouble {
  enum class Kind { failure, interrupt, lost, too_few, displaced };
  Kind kind = Kind::failure;
  int node = 0;
  int rank = 0;          ///< failure: the rank; lost: the first one of the lost node; too_few: the rank that was lost last
  std::string how = {};  ///< failure: "exit 7", "signal 9"; too_few, displaced: a sentence
  int signal = 0;        ///< interrupt: its number
  std::string text() const;
  static std::optional<Trouble> parse(const std::string& text);
};

/// Returns the rank that ended a job of several hosts, as index into `ends`, which are those of all hosts; see first_cause.h. A loss that the others
/// have survived is not the cause if a host is lost later.
std::optional<std::size_t> first_cause_of_hosts(std::span<const RankEnd> ends, int least_ranks, const std::optional<Trouble>& trouble);

/// Writes how the ranks of a node have ended, one line each, for the other launchers.
std::string encode_ends(const std::vector<RankEnd>& ends);
/// Throws ProtocolError if the text is no such list.
std::vector<RankEnd> decode_ends(const std::string& text);

}  // namespace unisono::launcher
