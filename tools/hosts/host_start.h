#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hosts/conducted_job.h"
#include "hosts/frames.h"
#include "hosts/remote_host.h"

namespace unisono::tools {

/// What the conductor knows of a host.
struct ConductedHost {
  std::unique_ptr<RemoteHost> remote;
  std::optional<Fields> hello = {};
  std::optional<std::string> result = {};  ///< "exit 7", "signal 9"
  bool has_met = false, is_lost = false, has_ended = false;
};

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

}  // namespace unisono::tools
