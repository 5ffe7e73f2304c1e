#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/deadline.h"
#include "coordination/exchange.h"
#include "schedule/cost_model.h"
#include "schedule/level_engines.h"
#include "schedule/schedule_choice.h"
#include "unisono/call.h"
#include "unisono/task.h"

namespace unisono::schedule {

/// Measures the messages between the hosts of a group: their latency, the time of each further one, and the time of a byte. Hosts 0 and 1, 2 and 3
/// and so on send to each other at the same time, so that hosts which share processors or a link find what each of them gets. Rank 0's figures are
/// rounded to half powers of two and handed to all ranks, which need the same. It takes some 70 messages. Where an earlier group on these hosts may
/// have measured, the ranks ask rank 0 first, whose answer goes to all of them: no rank may go by what it alone knows.
class Calibration final : public Task {
 public:
  /// `engines` must live as long as the task. Collective: every rank of the group makes one.
  Calibration(LevelEngines& engines, const ScheduleChoice& choice);

  bool advance() override;
  std::vector<int> waiting_for() const override { return current_->waiting_for(); }
  bool wakes_waiter() const override { return current_->wakes_waiter(); }
  bool sleep(std::chrono::nanoseconds at_most) override { return current_->sleep(at_most); }

  /// Returns the parameters, once the task is done.
  const NetworkParameters& result() const { return result_; }
  /// Returns true where they are those of an earlier group.
  bool was_known() const { return phase_ == Phase::known; }

 private:
  enum class Phase : std::uint8_t { asking, measuring, agreeing, known, measured };

  void begin_probe();
  void begin_agreement(Phase phase, const std::optional<NetworkParameters>& of_rank_0);
  void take_figures();

  LevelEngines& engines_;
  CollectiveCall call_;              ///< whose memory the probes use: only scratch
  int peer_ = -1;                    ///< the rank that this one exchanges probes with; -1: none
  bool begins_ = false;              ///< this rank sends first
  std::vector<double> us_;           ///< of each probe
  base::Clock::time_point started_;  ///< of the current one
  std::array<double, 4> figures_{};  ///< rank 0's: latency, gap, time per byte, crowding; zeros where it knows none
  CollectiveCall agreed_;
  coordination::Carried carried_;
  std::unique_ptr<Task> current_;
  Phase phase_ = Phase::measuring;
  NetworkParameters result_;
};

/// Returns the parameters that the times of the probes tell, as a calibration rounds and bounds them.
LevelParameters parameters_from(const std::vector<double>& us_of_probes);

/// Returns the parameters by which ranks choose that share processors: those of the loopback interface (cost_model.h), unless the network was found
/// to be slower than it by far. There the times of probes vary by a factor of two and more from one run to the next, and the choice would with them.
LevelParameters settled(const LevelParameters& measured, double crowding);

}  // namespace unisono::schedule
