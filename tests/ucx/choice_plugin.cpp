// A plug-in that is named like ours. Its engine cannot be made, and says so: the error of the job tells that `auto` has chosen it.
#include <cstdlib>
#include <string>

#include "unisono/engine.h"
#include "unisono/error.h"

namespace {

unisono::EngineTraits traits() {
  return {.why_not_auto = [] {
    const char* const reason = std::getenv("TEST_WHY_NOT_AUTO");
    const char* const rank = std::getenv("TEST_WITHOUT_DEVICE");
    const char* const own = std::getenv("RANK");
    if (rank != nullptr && own != nullptr && std::string(rank) == own) return std::string("the test took this rank's device away");
    return std::string(reason != nullptr ? reason : "");
  }};
}

std::unique_ptr<unisono::Engine> make(const unisono::EngineOptions&) { throw unisono::BackendUnavailable("the test's engine was chosen"); }

}  // namespace

UNISONO_PLUGIN {
  static const unisono::Plugin plugin{.name = "ucx", .about = "tells whether it was chosen", .traits = traits, .make = make};
  return &plugin;
}
