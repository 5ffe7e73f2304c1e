#pragma once

#include <chrono>
#include <span>
#include <string>
#include <vector>

#include "launch/first_cause.h"
#include "recorder/reader.h"

namespace unisono::launcher {

/// Returns a sentence on how long the job took and how its ranks ended.
std::string summary_of_ends(std::span<const RankEnd> ends, std::chrono::nanoseconds duration);
/// Returns a sentence on which ranks waited for the others for how much of their time, by their records. Empty where there is nothing to compare.
std::string summary_of_waits(std::span<const recorder::RankSeen> records);

}  // namespace unisono::launcher
