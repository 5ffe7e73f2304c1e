#include "engines/nccl/engine.h"
#include "unisono/error.h"

namespace unisono::engines::nccl {
namespace {

EngineTraits traits() {
  const auto outside = [] { return why_not(system_libraries(), Settings::of_process()); };
  const auto as_a_rank = [] {
    try {
      static_cast<void>(vendor());
      return std::string();
    } catch (const BackendUnavailable& error) {
      return error.message();
    }
  };
  return {.device = Device::Type::cuda, .spans_hosts = true, .why_not = outside, .why_not_as_a_rank = as_a_rank, .own_device = [](int local_rank) {
            return own_device(*vendor(), local_rank);
          }};
}

std::shared_ptr<DeviceRuntime> runtime() { return std::make_shared<CudaRuntime>(vendor(Wanted::runtime_only), 0); }

}  // namespace
}  // namespace unisono::engines::nccl

UNISONO_PLUGIN {
  static const unisono::Plugin plugin{.name = "nccl",
                                      .about = "device memory over NCCL 2.19 or newer, opened at run time",
                                      .traits = unisono::engines::nccl::traits,
                                      .make = unisono::engines::nccl::make_engine,
                                      .bootstrap = nullptr,
                                      .runtime = unisono::engines::nccl::runtime};
  return &plugin;
}
