#include "engines/gloo/engine.h"
#include "unisono/engine.h"

namespace {

unisono::EngineTraits traits() { return {}; }

std::unique_ptr<unisono::Engine> make(const unisono::EngineOptions& options) { return std::make_unique<unisono::engines::GlooEngine>(options); }

}  // namespace

UNISONO_PLUGIN {
  static const unisono::Plugin plugin{.name = "gloo", .about = "Gloo 0.5.0 over TCP", .traits = traits, .make = make};
  return &plugin;
}
