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

#include "base/file_descriptor.h"
#include "base/thread.h"
#include "launch/hosts/job_hosts.h"
#include "launch/process/poll_set.h"
#include "unisono/store.h"

namespace unisono::launcher {

/// The keys by which the launchers of a job that goes on without lost ranks speak of one attempt.
struct ElasticKeys {
  int attempt = 0;
  std::string tally(int host) const;
  /// The key that says how a process has ended. The ranks look for it where they form a group anew (rendezvous/growth.h).
  std::string end(const std::string& name) const;
  std::string first_end() const;
  std::string ended() const;  ///< counts the processes that have ended
  /// The key of a process that the others have left out.
  std::string lost(const std::string& name) const;
  static constexpr const char* restarts = "launchers/restarts";  ///< counts the processes that were started in the place of lost ones
};

/// Tells whether the name is that of a process of the start. Those meet for the first time, and wait for no other.
inline bool is_of_the_start(std::string_view name) { return name.find('.') == std::string_view::npos; }

/// The other hosts of a job that goes on without lost ranks: what their launchers say of their ranks, and the restarts that all hosts share.
class ElasticPeers {
 public:
  ElasticPeers() = default;
  virtual ~ElasticPeers() = default;
  ElasticPeers(const ElasticPeers&) = delete;
  ElasticPeers& operator=(const ElasticPeers&) = delete;

  /// Says how this host's ranks are, where that has changed.
  virtual void tell(const HostTally& tally) = 0;
  /// Says that a process of this host has ended.
  virtual void tell_end(const std::string& name, const std::string& how) = 0;
  /// Asks for one of the restarts that all hosts share, for this rank. The answer is among the news; at once where nobody else has to be asked.
  virtual void ask_restart(int rank) = 0;
  /// A restart that was granted is not needed.
  virtual void give_back_restart() = 0;
  /// Returns how many restarts there are in this attempt.
  virtual int most_restarts() const = 0;
  /// Returns how many restarts were taken on this host without asking another one.
  virtual int own_restarts() const = 0;
  /// Says what is still to be said, and nothing any more.
  virtual void finish() = 0;

  struct News {
    std::vector<std::string> lost = {};                   ///< processes of this host that the others have left out
    std::optional<std::string> first_end = {};            ///< "2 exit 7": the first process of the start that has ended
    std::vector<std::pair<int, int>> granted = {};        ///< a rank, and the number of the restart; 0 where none is left
    std::vector<std::pair<std::string, int>> ended = {};  ///< processes of this host, and how many of the whole job had ended before
    int restarts = 0;                                     ///< so many are taken
    std::map<int, HostTally> others = {};                 ///< the last word of each other host; of a silent one, that all of its ranks live
  };
  /// Returns what is new; `restarts` and `others` are always there.
  virtual News take() = 0;
  virtual void wait_for(PollSet& set) = 0;
};

/// The peers of a host that has none: its restarts are its own.
class NoElasticPeers final : public ElasticPeers {
 public:
  explicit NoElasticPeers(int restarts) : most_(restarts) {}

  void tell(const HostTally& /*tally*/) override {}
  void tell_end(const std::string& /*name*/, const std::string& /*how*/) override {}
  void ask_restart(int rank) override { granted_.emplace_back(rank, taken_ < most_ ? ++taken_ : 0); }
  void give_back_restart() override { --taken_; }
  int most_restarts() const override { return most_; }
  int own_restarts() const override { return taken_; }
  void finish() override {}
  News take() override { return {.granted = std::exchange(granted_, {}), .restarts = taken_}; }
  void wait_for(PollSet& /*set*/) override {}

 private:
  const int most_;
  int taken_ = 0;
  std::vector<std::pair<int, int>> granted_;
};

/// The words between the launchers of several hosts. A thread exchanges them in the launchers' store, while the loop of the launcher goes on; where
/// the store is lost, the launchers' heartbeat sees it as well.
class ElasticHosts final : public ElasticPeers {
 public:
  struct Parts {
    std::shared_ptr<Store> store;
    ElasticKeys keys = {};
    int host = 0;  ///< this one
    int max_restarts = 0;
    std::function<std::vector<JobHost>()> hosts;  ///< those of the job; called by the thread
  };
  explicit ElasticHosts(Parts parts);
  ~ElasticHosts() override;

  void tell(const HostTally& tally) override;
  void tell_end(const std::string& name, const std::string& how) override;
  void ask_restart(int rank) override;
  void give_back_restart() override;
  int most_restarts() const override { return parts_.max_restarts; }
  int own_restarts() const override { return 0; }
  void finish() override { stop(); }
  News take() override;
  void wait_for(PollSet& set) override;

 private:
  struct Sayings {
    std::optional<HostTally> tally = {};
    std::vector<std::pair<std::string, std::string>> ends = {};
    std::vector<int> asked = {};
    int given_back = 0;
    bool is_empty() const { return !tally && ends.empty() && asked.empty() && given_back == 0; }
  };
  void stop();
  void speak_and_listen();
  void say(const Sayings& sayings);
  void hear();
  void grant(int rank);

  const Parts parts_;
  base::FileDescriptor notifier_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  bool stop_ = false;
  Sayings sayings_;
  HostTally own_;
  News news_;
  std::vector<std::string> heard_lost_;
  bool has_heard_end_ = false;
  base::Thread thread_;
};

}  // namespace unisono::launcher
