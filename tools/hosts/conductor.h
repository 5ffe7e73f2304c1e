#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "hosts/conducted_job.h"
#include "hosts/host_start.h"
#include "hosts/host_input.h"
#include "hosts/host_output.h"
#include "launch/process/host.h"
#include "launch/output/output.h"
#include "launch/process/signals.h"

namespace unisono::tools {

/// Has the launchers of a job started on its hosts, passes on what they say and get, and sees them to their end.
class Conductor {
 public:
  explicit Conductor(const ConductedJob& job);

  int run();

 private:
  enum class Phase { greeting, port, running, ended };

  void round();
  void advance();
  void take(std::size_t number, const Frame& frame);
  void refuse(ConductedHost& host, const std::string& why, const std::string& hint);
  void look_for_the_lost();
  void lose(std::size_t number, const std::string& why);
  void note_cancelled(const ConductedHost& host, int signal);
  void begin_start();
  void start_launchers(int port);
  void note_result(std::size_t number, const std::string& how);
  void end_others(int signal);
  void handle_signal(int signal);
  void beat();
  void pass_closed_output();
  int account();
  template <class Condition>
  bool all(Condition condition) const {
    return std::ranges::all_of(hosts_, condition);
  }

  const launcher::JobOptions& options_;
  const launcher::DescriptorLimit limit_;
  launcher::SignalScope signals_;
  launcher::Console console_;
  HostOutput output_;
  HostInput input_;
  base::Deadline answer_;
  std::vector<ConductedHost> hosts_;
  HostStart start_;
  Phase phase_ = Phase::greeting;
  std::string loss_;
  base::Deadline next_beat_;
  std::optional<base::Deadline> give_up_;
  std::optional<int> interrupted_by_, cancelled_by_;  ///< the signal that this command has got; that the processes of a host have got
  bool has_closed_output_ = false;
  bool has_killed_ = false;  ///< a launcher was ended by a signal
  int interrupts_ = 0, exit_code_ = 0;
};

}  // namespace unisono::tools
