#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "group/group_core.h"
#include "recorder/recorder.h"
#include "unisono/engine.h"

namespace unisono::group {

class Progress;

/// The parts that a group is made of.
struct GroupParts {
  std::string name;
  int rank = 0;
  std::vector<int> global_ranks;
  int generation = 0;                    // of the job, in whose world these ranks are; 0: of no job that grows
  std::vector<int> recorded_ranks = {};  // by the former, the ranks of the job that the record is of, -1: of none; empty: they are the same
  std::vector<std::string> host_names;   // of the members
  std::unique_ptr<GroupCore> core;
  std::chrono::milliseconds timeout{};
  std::shared_ptr<Progress> progress;
  std::shared_ptr<recorder::Recorder> recorder;
  std::function<void(const Failure&)> on_failure = {};  // called once, for the failure that is noticed first; must not throw
  /// Called for each Mismatch of a collective, and for other errors that all ranks throw, with the culprit (-1: none) and the number of ranks that
  /// were compared; must not throw.
  std::function<void(const std::string& text, int culprit, int ranks)> on_error_of_all = {};
};

}  // namespace unisono::group
