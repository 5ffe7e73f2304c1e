#pragma once

#include <string>
#include <vector>

#include "hosts/options.h"
#include "launch/job_options.h"

namespace unisono::tools {

/// The options of `unisono run`, as they were typed.
struct RunFlags {
  launcher::JobOptions job;
  HostFlags hosts;
  std::string ranks = "1", nodes = "1";
  double last_call_seconds = 30;
  double grace_seconds = 15;
  double silence_seconds = 30;
  int timeout_seconds = 0;  ///< 0: as the environment says
  bool own_backend = false;
  std::string module;   ///< stays empty: the words from -m on are the program
  std::string binding;  ///< empty: shares
  std::vector<std::string> forwarded;
  std::string standard_input = "0";
  bool no_pty = false;
};

/// Adds the options of `run` to its command, with what help and the manual say beside them.
void add_run_options(CLI::App* command, RunFlags& flags);

}  // namespace unisono::tools
