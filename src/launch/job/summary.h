#pragma once

#include <chrono>
#include <span>
#include <string>
#include <vector>

#include "launch/process/first_cause.h"
#include "recorder/reader.h"

namespace unisono::launcher {

/// Returns a sentence on how long the job took and how its ranks ended.
std::string summary_of_ends(std::span<const RankEnd> ends, std::chrono::nanoseconds duration);
/// Adds how much of its time each rank has waited for the others, by its record. A rank that has called nothing has no such share.
void add_waits(std::vector<RankEnd>& ends, std::span<const recorder::RankSeen> records);
/// Returns the positions, in ascending order, of those for whom the others wait. They wait less than the others, by at least 2 % of their time, and
/// by more than chance does to ranks that are alike. Empty: all wait alike, but for noise. `waits`: the shares of their time in which the ranks wait
/// for each other, from 0 to 1; `calls`: how many calls each of them has made at least.
std::vector<std::size_t> slowest_of(std::span<const double> waits, std::uint64_t calls);
/// Returns a sentence on which ranks waited for the others for how much of their time. Empty where there is nothing to compare.
std::string summary_of_waits(std::span<const RankEnd> ends);

}  // namespace unisono::launcher
