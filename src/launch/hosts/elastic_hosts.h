#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/thread.h"
#include "launch/hosts/host_texts.h"
#include "launch/process/poll_set.h"
#include "unisono/store.h"

namespace unisono::launcher {

/// Tells whether the name is that of a process of the start. Those meet for the first time, and wait for no other.
inline bool is_of_the_start(std::string_view name) { return name.find('.') == std::string_view::npos; }

/// The other hosts of a job that goes on without lost ranks: what their launchers say of their ranks, and the restarts that all hosts share. This
/// class serves a host that has no others: its restarts are its own.
class ElasticPeers {
 public:
  explicit ElasticPeers(int restarts) : most_(restarts) {}
  virtual ~ElasticPeers() = default;
  ElasticPeers(const ElasticPeers&) = delete;
  ElasticPeers& operator=(const ElasticPeers&) = delete;

  /// Says how this host's ranks are, if that has changed.
  virtual void tell(const HostTally& /*tally*/) {}
  /// Says that a process of this host has ended.
  virtual void tell_end(const std::string& /*name*/, const std::string& /*how*/) {}
  /// Asks for one of the restarts that all hosts share, for this rank. The answer is among the news; at once if nobody else has to be asked.
  virtual void ask_restart(int rank) { granted_.emplace_back(rank, taken_ < most_ ? ++taken_ : 0); }
  /// A restart that was granted is not needed.
  virtual void give_back_restart() { --taken_; }
  /// Returns how many restarts there are in this attempt.
  int most_restarts() const { return most_; }
  /// Returns how many restarts were taken on this host without asking another one.
  int own_restarts() const { return taken_; }
  /// Says what is still to be said, and nothing any more.
  virtual void finish() {}

  struct News {
    std::vector<std::string> lost = {};                   ///< processes of this host that the others have left out
    std::optional<std::string> first_end = {};            ///< "2 exit 7": the first process of the start that has ended
    std::vector<std::pair<int, int>> granted = {};        ///< a rank, and the number of the restart; 0 if none is left
    std::vector<std::pair<std::string, int>> ended = {};  ///< processes of this host, and how many of the whole job had ended before
    int restarts = 0;                                     ///< so many are taken
    std::map<int, HostTally> others = {};                 ///< the last word of each other host; of a silent one, that all of its ranks live
  };
  /// Returns what is new; `restarts` and `others` are always there.
  virtual News take() { return {.granted = std::exchange(granted_, {}), .restarts = taken_}; }
  virtual void wait_for(PollSet& /*set*/) {}

 private:
  const int most_;
  int taken_ = 0;
  std::vector<std::pair<int, int>> granted_;
};

/// The words between the launchers of several hosts. A thread exchanges them in the launchers' store, while the loop of the launcher goes on; if
/// the store is lost, the launchers' heartbeat sees it as well.
class ElasticHosts final : public ElasticPeers {
 public:
  struct Parts {
    std::shared_ptr<Store> store;
    AttemptKeys keys = {};
    int host = 0;  ///< this one
    int max_restarts = 0;
    std::function<std::vector<JobHost>()> hosts;  ///< those of the job; called by the thread
  };
  explicit ElasticHosts(Parts parts);
  ~ElasticHosts() override { finish(); }

  void tell(const HostTally& tally) override;
  void tell_end(const std::string& name, const std::string& how) override;
  void ask_restart(int rank) override;
  void give_back_restart() override;
  void finish() override;
  News take() override;
  void wait_for(PollSet& set) override;

 private:
  struct Outgoing {
    std::optional<HostTally> tally = {};
    std::vector<std::pair<std::string, std::string>> ends = {};
    std::vector<int> asked = {};
    int given_back = 0;
    bool is_empty() const { return !tally && ends.empty() && asked.empty() && given_back == 0; }
  };
  /// Adds something that the thread says.
  template <class Change>
  void add(Change change);
  void exchange();
  void write(const Outgoing& outgoing);
  void read_others();
  void grant(int rank);

  const Parts parts_;
  const Notifier notifier_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  bool stop_ = false;
  Outgoing outgoing_;
  HostTally own_;
  News news_;
  std::vector<std::string> known_lost_;
  bool knows_first_end_ = false;
  base::Thread thread_;
};

}  // namespace unisono::launcher
