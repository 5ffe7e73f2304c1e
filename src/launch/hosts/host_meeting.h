#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/secret.h"
#include "launch/hosts/admission.h"
#include "launch/hosts/hosts.h"
#include "launch/hosts/host_texts.h"
#include "launch/job_options.h"
#include "launch/process/host.h"
#include "store/client.h"

namespace unisono::launcher {

/// The launchers of several hosts meet in a store served by node 0 at the address that every launcher was given. There they agree on the number of
/// ranks of each node, and on what holds for all of them.
class HostMeeting {
 public:
  /// Waits for all launchers, at most as long as ranks wait for each other. Throws InvalidArgument, Mismatch, Timeout (which names the missing nodes
  /// and those that came) or ProtocolError.
  explicit HostMeeting(const JobOptions& options);

  const JobTerms& terms() const { return terms_; }
  bool is_node_zero() const { return terms_.node == 0; }
  int most_hosts() const { return most_hosts_; }
  int least_hosts() const { return least_hosts_; }
  /// Returns the numbers from 0 to most_hosts() - 1.
  std::vector<int> numbers() const;
  /// A launcher that is silent for so long is lost, as host 0 says it.
  std::chrono::milliseconds silence() const { return silence_; }
  const std::shared_ptr<store::Client>& store() const { return store_; }
  HostRoster& roster() { return roster_; }
  const HostRoster& roster() const { return roster_; }
  /// Returns null but on node 0 of an open job.
  Admission* admission() { return admission_.get(); }
  /// Tells the ranks of this host, through their launcher's store, where the store of the job is.
  void tell_ranks(store::StoreServer& launchers, int attempt) const;

 private:
  void join_fixed(const JobOptions& options, const base::Deadline& deadline, const std::string& place, const std::string& at);
  void join_open(const JobOptions& options, const base::Deadline& deadline, const std::string& at);
  void compare_numbers(const JobOptions& options, const base::Deadline& deadline);
  void agree(const JobOptions& options, const base::Deadline& deadline);
  void reserve_port();
  void relay(store::StoreServer& launchers) const;

  const int most_hosts_, least_hosts_;
  std::chrono::milliseconds silence_;
  const base::Secret secret_;
  const std::string encryption_;  ///< see rendezvous::encryption_settings
  JobTerms terms_;
  HostRoster roster_;
  base::SocketAddress store_address_;
  std::shared_ptr<store::Client> store_;
  std::function<std::shared_ptr<store::Client>(const base::Deadline&)> connect_;  ///< makes another connection to the store
  std::optional<PortReservation> port_;
  std::unique_ptr<Admission> admission_;
};

}  // namespace unisono::launcher
