#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hosts/frames.h"
#include "hosts/host_list.h"
#include "hosts/remote_host.h"
#include "launch/job/supervisor.h"

namespace unisono::tools {

/// A job whose launchers this process starts on several hosts.
struct ConductedJob {
  std::vector<HostEntry> hosts;
  std::string start_command;           ///< --ssh
  std::string folder;                  ///< where the ranks run, on every host
  std::vector<std::string> variables;  ///< "NAME=VALUE", for every host
  std::string master_addr;             ///< empty: the address by which host 0 was reached
  int master_port = 0;                 ///< 0: any that is free there
  base::Secret secret;                 ///< empty: one is made
  /// Returns the words of `unisono` for a host, but for those that name the hosts and the place where they meet.
  std::function<std::vector<std::string>(const HostEntry&)> words;
  const launcher::JobOptions* options = nullptr;  ///< signals, standard input, silence, grace, environment
};

/// What the conductor knows of a host.
struct ConductedHost {
  std::unique_ptr<RemoteHost> remote;
  std::optional<Fields> hello = {};
  std::optional<std::string> result = {};  ///< "exit 7", "signal 9"
  bool has_met = false, is_lost = false, has_ended = false;
};

/// Returns what the agent of a host is told first; more fields may follow. `folder`: where it starts something.
Fields config_of_agent(const std::string& folder, std::chrono::milliseconds silence, bool address_is_needed,
                       const std::vector<std::string>& variables, const base::Environment& environment);

/// The start of a job on several hosts: their agents, where the launchers meet, and the launchers.
class HostStart {
 public:
  /// Both are used until the launchers have been started.
  HostStart(const ConductedJob& job, std::vector<ConductedHost>& hosts) : job_(job), hosts_(hosts) {}

  /// Starts the agent of each host, and adds the host.
  void reach_hosts();
  /// Chooses where the launchers meet, after all agents have answered. Throws InvalidArgument where another host could not get there.
  void choose_address();
  /// Returns the port there; nothing: host 0 has to be asked for one.
  std::optional<int> port() const;
  void ask_for_port();
  void start_launchers(int port);

 private:
  std::string meeting_address() const;
  std::vector<std::string> launcher_words(std::size_t number, int port) const;
  bool all_are_local() const;

  const ConductedJob& job_;
  std::vector<ConductedHost>& hosts_;
  std::string address_;
};

/// Runs the job to its end and leaves nothing behind on any host. Returns the exit code: that of the first cause, 128 + signal after Ctrl-C and the
/// like, 1 where a host is lost or cannot be used.
int conduct(const ConductedJob& job);

}  // namespace unisono::tools
