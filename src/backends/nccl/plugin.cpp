#include "backends/nccl/engine.h"
#include "unisono/error.h"

namespace unisono::backends::nccl {
namespace {

EngineTraits traits() {
  return {.device = Device::Type::cuda, .spans_hosts = true, .why_not = [] {
            try {
              static_cast<void>(vendor());
              return std::string();
            } catch (const BackendUnavailable& error) {
              return error.message();
            }
          }};
}

}  // namespace
}  // namespace unisono::backends::nccl

UNISONO_PLUGIN {
  static const unisono::Plugin plugin{.name = "nccl",
                                      .about = "device memory over NCCL 2.19 or newer, opened at run time",
                                      .traits = unisono::backends::nccl::traits,
                                      .make = unisono::backends::nccl::make_engine,
                                      .carrier = nullptr};
  return &plugin;
}
