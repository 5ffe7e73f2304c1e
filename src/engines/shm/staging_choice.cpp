#include "engines/shm/staging_choice.h"

#include <chrono>

#include <fmt/format.h>

#include "base/log.h"
#include "engines/shm/distance_trial.h"

namespace unisono::engines::shm {

bool StagingChoice::is_trial_due(bool fills_slots) {
  constexpr std::uint32_t calls_between_looks = 64;  // at the clock
  if (!fills_slots && Staging::word() != StagingWord::nothing) return false;
  if (is_crowded_ || segment_.ranks() == 1) return false;
  return calls_++ % calls_between_looks == 0 && base::Clock::now() >= next_trial_;
}

void StagingChoice::follow(StagingWord told) {
  if (told == StagingWord::trial) make_trial();
  else if (told != StagingWord::nothing) Staging::set(told);
}

void StagingChoice::make_trial() {
  constexpr std::chrono::milliseconds between_trials{50};  // each of which takes less than a thousandth of that
  DistanceTrial trial(segment_, trials_++);
  if (rank_ > 1) return;
  const auto are_distant = rank_ == 0 ? trial.lead() : trial.follow();
  next_trial_ = base::Clock::now() + between_trials;
  if (!are_distant) return;
  const StagingWord before = Staging::word();
  Staging::set_past_caches(*are_distant);
  if (before != Staging::word()) base::debug(fmt::format("slots are written {} the caches", *are_distant ? "past" : "through"));
}

}  // namespace unisono::engines::shm
