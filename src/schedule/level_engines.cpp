#include "schedule/level_engines.h"

#include <string>
#include <utility>

#include <fmt/format.h>

#include "unisono/error.h"

namespace unisono::schedule {

LevelEngines::LevelEngines(coordination::Coordination& coordination, Engines engines)
    : coordination_(coordination), engines_(std::move(engines)), host_(coordination.host_engine()) {}

const std::shared_ptr<Engine>& LevelEngines::at(Level level) const {
  switch (level) {
    case Level::host: return host_;
    case Level::rail: return engines_.rail;
    case Level::group: break;
  }
  return engines_.group;
}

// An engine's own error text is used where no peer is found that caused the failure.
coordination::FailureAttribution LevelEngines::attribution() const { return {coordination_, {.engine = engines_.group->name()}}; }

// All ranks have agreed on the call by now, and the others are in it: they are told where this rank cannot begin it.
BlockingCalls& LevelEngines::blocking_calls() {
  if (blocking_calls_) return *blocking_calls_;
  const auto give_up = [this](const std::string& why) {
    coordination_.poison({.kind = Failure::Kind::peer_failed,
                          .cause = PeerFailed::Cause::aborted,
                          .culprit = coordination_.rank(),
                          .missing = {},
                          .message = fmt::format("rank {} has given up a call that was under way{}", coordination_.rank(), why)});
  };
  try {
    blocking_calls_ = std::make_unique<BlockingCalls>(coordination_.notifier(), [give_up] { give_up(""); });
  } catch (const Error& error) {
    give_up(": " + error.message());
    throw;
  }
  return *blocking_calls_;
}

std::unique_ptr<Task> LevelEngines::start(const std::shared_ptr<Engine>& engine, const CollectiveCall& call) {
  if (engine->starts()) return engine->start(call);
  return blocking_calls().run(engine, call);
}

}  // namespace unisono::schedule
