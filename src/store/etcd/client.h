#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "store/etcd/gateway.h"
#include "store/etcd/location.h"

namespace unisono::store::etcd {

/// Speaks with a cluster of etcd. Any number of threads ask at once, each over a connection of its own, which is kept for later. An endpoint that
/// does not answer is left for the next one; where none does, all of them are tried again, at growing intervals, up to the deadline.
class Client {
 public:
  /// Throws BackendUnavailable where libunisono-etcd.so is missing or cannot be used.
  explicit Client(Location location);
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  const Location& location() const { return location_; }
  std::string name() const { return location_.name(); }

  struct Outcome {
    Failure::Kind kind = Failure::Kind::none;  ///< none, lease_gone, compacted; stopped: the deadline of a watch has passed
    bool was_doubtful = false;                 ///< an earlier try got no answer and may have been carried out
  };
  /// Throws Timeout, which names the endpoints and why they did not answer, InvalidArgument with what etcd refuses, ProtocolError for answers that
  /// are not etcd's, NotInitialized in a child of fork, and what ends the program's own waits.
  Outcome transact(const Transaction& transaction, Answer& answer, const base::Deadline& deadline);
  /// Returns the lease.
  std::int64_t grant(std::chrono::seconds time, const base::Deadline& deadline);
  /// Returns false where the lease has expired.
  bool keep_alive(std::int64_t lease, const base::Deadline& deadline);
  void revoke(std::int64_t lease, const base::Deadline& deadline);
  Outcome watch(const std::vector<std::string>& keys, std::int64_t from, const base::Deadline& deadline);

  /// Ends the waits of all threads, by an exception, and lets none begin.
  void stop();
  /// Returns true where the last request got no answer from any endpoint.
  bool is_lost() const;

 private:
  class Turn;
  struct Try;
  using Call = std::function<Failure(Channel&, Patience&)>;
  enum class Length { short_answer, open_end };
  Outcome ask(const base::Deadline& deadline, const Call& call, Length length = Length::short_answer);
  Failure attempt(std::size_t endpoint, const base::Deadline& deadline, const Call& call, Length length);
  Failure log_in(Channel& channel, Patience& patience);
  std::unique_ptr<Channel> borrow(std::size_t endpoint);
  void give_back(std::size_t endpoint, std::unique_ptr<Channel> channel, bool is_good);
  void pause(std::chrono::milliseconds time, const base::Deadline& deadline);
  [[noreturn]] void throw_unreachable(const base::Deadline& deadline, int attempts, const std::map<std::size_t, std::string>& reasons) const;
  void check_process() const;

  const Location location_;
  const Library* library_;
  const int pid_;
  mutable std::mutex mutex_;  ///< guards the members below
  std::condition_variable stopping_;
  bool stop_ = false;
  bool is_lost_ = false;
  std::size_t current_ = 0;  ///< the endpoint that answered last
  base::Secret token_;
  std::vector<std::vector<std::unique_ptr<Channel>>> idle_;  ///< by endpoint
  std::set<Channel*> busy_;
};

}  // namespace unisono::store::etcd
