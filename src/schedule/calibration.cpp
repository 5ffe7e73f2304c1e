#include "schedule/calibration.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "coordination/coordination.h"
#include "schedule/scheduled_task.h"

namespace unisono::schedule {
namespace {

constexpr std::size_t answer_bytes = 8;

/// Messages of one rank at once; the other answers with one when all have come.
struct Probe {
  int times;
  int messages;
  std::size_t bytes;
};
constexpr int warm_ups = 2;
constexpr std::array probes = {Probe{.times = warm_ups + 7, .messages = 1, .bytes = answer_bytes}, Probe{.times = 5, .messages = 8, .bytes = 512},
                               Probe{.times = 3, .messages = 1, .bytes = std::size_t{128} << 10}};
constexpr std::size_t largest = std::max({probes[0].bytes, probes[1].bytes * 8, probes[2].bytes});

/// Returns null after the last one.
const Probe* probe_at(std::size_t index) {
  for (const Probe& probe : probes) {
    if (index < static_cast<std::size_t>(probe.times)) return &probe;
    index -= static_cast<std::size_t>(probe.times);
  }
  return nullptr;
}

Schedule schedule_of(const Probe& probe, int peer, bool begins) {
  Schedule schedule;
  Builder to(schedule);
  const Slice all = to.scratch(largest), answer = to.scratch(answer_bytes);
  const auto messages = [&] {
    for (int i = 0; i < probe.messages; ++i) {
      const Slice part = all.part(static_cast<std::size_t>(i) * probe.bytes, probe.bytes);
      begins ? to.send(Level::group, peer, part) : to.receive(Level::group, peer, part);
    }
    to.next_wave();
  };
  messages();
  begins ? to.receive(Level::group, peer, answer) : to.send(Level::group, peer, answer);
  to.next_wave();
  return schedule;
}

/// Returns the lower quartile: what disturbs a probe makes it longer.
double undisturbed(std::span<const double> of) {
  std::vector<double> sorted(of.begin(), of.end());
  std::ranges::sort(sorted);
  return sorted[sorted.size() / 4];
}

/// Rounds to half powers of two, so that small differences between two runs change nothing.
double rounded(double x, double least, double most) { return std::exp2(std::round(std::log2(std::clamp(x, least, most)) * 2) / 2); }

}  // namespace

LevelParameters parameters_from(const std::vector<double>& us_of_probes) {
  std::array<double, probes.size()> us{};
  std::span<const double> rest = us_of_probes;
  for (std::size_t i = 0; i < probes.size(); ++i) {
    const auto times = static_cast<std::size_t>(probes[i].times), first = i == 0 ? static_cast<std::size_t>(warm_ups) : 0;
    us[i] = undisturbed(rest.subspan(first, times - first));
    rest = rest.subspan(times);
  }
  const double latency = us[0] / 2, gap = (us[1] - us[0]) / (probes[1].messages - 1);
  const double ns_per_byte = (us[2] - us[0]) * 1000 / static_cast<double>(probes[2].bytes);
  LevelParameters level{.latency_us = rounded(latency, 0.5, 1e5)};
  level.gap_us = rounded(gap, level.latency_us / 64, level.latency_us);
  level.ns_per_byte = rounded(ns_per_byte, 0.01, 1e4);
  return level;
}

LevelParameters settled(const LevelParameters& measured, double crowding) {
  if (crowding <= 1) return measured;
  constexpr double tolerance = 4;
  const LevelParameters loopback = between_shared_processors(crowding);
  LevelParameters level = measured;
  level.gap_us = loopback.gap_us;  // processors' time alone
  if (measured.latency_us <= tolerance * crowding * loopback.latency_us) level.latency_us = loopback.latency_us;
  if (measured.ns_per_byte <= tolerance * loopback.ns_per_byte) level.ns_per_byte = loopback.ns_per_byte;
  return level;
}

Calibration::Calibration(LevelEngines& engines, const ScheduleChoice& choice) : engines_(engines) {
  const coordination::GroupTopology& topology = engines.coordination().topology();
  call_.in = TensorView(nullptr, DType::uint8, 0);
  call_.out = call_.in;
  const int other = topology.host() ^ 1;
  if (topology.local == 0 && other < topology.host_count()) {
    peer_ = topology.leaders[static_cast<std::size_t>(other)];
    begins_ = topology.host() < other;
  }
  if (choice.may_know_network()) begin_agreement(Phase::asking, choice.network_of_earlier_group());
  else begin_probe();
}

void Calibration::begin_probe() {
  phase_ = Phase::measuring;
  const Probe* const probe = peer_ < 0 ? nullptr : probe_at(us_.size());
  if (probe == nullptr) {
    std::optional<NetworkParameters> own;
    if (const coordination::Coordination& coordination = engines_.coordination(); coordination.rank() == 0) {
      own.emplace();
      own->network = settled(parameters_from(us_), coordination.crowding());
      own->crowding = coordination.crowding();
    }
    return begin_agreement(Phase::agreeing, own);
  }
  engines_.scratch().reset();
  started_ = base::Clock::now();
  current_ = std::make_unique<ScheduledTask>(engines_, call_, schedule_of(*probe, peer_, begins_));
}

void Calibration::begin_agreement(Phase phase, const std::optional<NetworkParameters>& of_rank_0) {
  phase_ = phase;
  figures_ = {};
  agreed_.operation = Operation::broadcast;
  agreed_.root = 0;
  agreed_.count = figures_.size();
  agreed_.in = TensorView(figures_.data(), DType::float64, figures_.size());
  agreed_.out = agreed_.in;
  carried_ = {.each = sizeof figures_, .only = 0};
  coordination::Coordination& coordination = engines_.coordination();
  if (coordination.rank() == 0) {
    if (of_rank_0) figures_ = {of_rank_0->network.latency_us, of_rank_0->network.gap_us, of_rank_0->network.ns_per_byte, of_rank_0->crowding};
    carried_.own = std::as_bytes(std::span(figures_));
  }
  current_ = coordination.start_agreement(agreed_, &carried_);
}

void Calibration::take_figures() {
  std::memcpy(figures_.data(), carried_.all, sizeof figures_);
  const bool asked = phase_ == Phase::asking;
  if (asked && figures_[0] == 0) return begin_probe();  // rank 0 knows none
  result_.crowding = figures_[3];
  result_.network = {.latency_us = figures_[0], .gap_us = figures_[1], .ns_per_byte = figures_[2]};
  phase_ = asked ? Phase::known : Phase::measured;
}

bool Calibration::advance() {
  while (phase_ < Phase::known) {
    if (!current_->advance()) return false;
    if (phase_ != Phase::measuring) {
      take_figures();
      continue;
    }
    us_.push_back(std::chrono::duration<double, std::micro>(base::Clock::now() - started_).count());
    begin_probe();
  }
  return true;
}

}  // namespace unisono::schedule
