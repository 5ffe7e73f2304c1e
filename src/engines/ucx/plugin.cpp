#include "engines/ucx/devices.h"
#include "engines/ucx/engine.h"
#include "engines/ucx/library.h"

namespace unisono::engines::ucx {
namespace {

EngineTraits traits() {
  return {.why_not = why_not, .why_not_auto = [] { return RdmaProbe::of_process().why_not(); }};
}

}  // namespace
}  // namespace unisono::engines::ucx

UNISONO_PLUGIN {
  static const unisono::Plugin plugin{.name = "ucx",
                                      .about = "UCX 1.13 or newer, opened at run time: RDMA, TCP, shared memory",
                                      .traits = unisono::engines::ucx::traits,
                                      .make = unisono::engines::ucx::make_engine};
  return &plugin;
}
