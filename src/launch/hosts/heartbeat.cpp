#include "launch/hosts/heartbeat.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>

#include <fmt/format.h>

namespace unisono::launcher {
namespace {

constexpr auto longest_pause_of_beats = std::chrono::milliseconds(1000);

}  // namespace

Heartbeat::Heartbeat(const HostMeeting& meeting, AttemptReports& reports, HostChanges& changes)
    : meeting_(meeting), reports_(reports), changes_(changes), thread_("the heartbeat to other hosts", [this] { beat(); }) {}

void Heartbeat::beat() {
  const auto pause = std::min<std::chrono::milliseconds>(meeting_.silence() / 4, longest_pause_of_beats);
  SilenceWatch others(meeting_.silence(), 2 * pause);
  try {
    for (std::int64_t number = 1; reports_.tell_within(pause); ++number) {
      meeting_.store()->set(launcher_key("beat", meeting_.terms().node), std::to_string(number));
      if (meeting_.is_node_zero()) look_for_the_silent(others);
      changes_.look();
    }
  } catch (const std::exception& error) {
    reports_.lose_store(error);
  }
}

/// Node 0 takes a launcher that has been silent for too long for lost. It hears of that where it goes on later.
void Heartbeat::look_for_the_silent(SilenceWatch& others) {
  others.look();
  store::Client& store = *meeting_.store();
  for (const JobHost& host : meeting_.roster().all()) {
    const auto said = [&] { return store.own_server()->peek(launcher_key("beat", host.number)).value_or(""); };
    if (host.number == 0 || host.is_gone || !others.is_silent(host.number, said())) continue;
    store.compare_set(launcher_key("bye", host.number), "", fmt::format("nothing came from it for {} ms", meeting_.silence().count()));
  }
}

}  // namespace unisono::launcher
