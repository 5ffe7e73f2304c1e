#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "backends/nccl/clique.h"
#include "unisono/engine.h"

namespace unisono::backends::nccl {

/// A group on NCCL: one communicator of all ranks for collectives, one for each direction between two ranks that exchange messages, so that messages
/// wait for nothing but each other, and one for each number of devices that a process gives at once. All but the first are made when they are needed.
/// A task is done when its operation is enqueued; its completion is when the device is. One that was asked for by name makes its device the calling
/// thread's current one.
class NcclEngine final : public Engine {
 public:
  NcclEngine(std::shared_ptr<const Vendor> vendor, const EngineOptions& options);
  ~NcclEngine() override;

  std::string_view name() const noexcept override { return "nccl"; }
  Device::Type device_type() const noexcept override { return Device::Type::cuda; }
  Device device() const noexcept override { return {.type = Device::Type::cuda, .index = device_}; }
  std::shared_ptr<DeviceRuntime> runtime() override { return std::make_shared<CudaRuntime>(vendor_, device_); }
  bool offers(const CollectiveCall& call) const override { return nccl::offers(call); }
  std::unique_ptr<Task> start(const CollectiveCall& call) override;
  void abort(const Failure& failure) noexcept override;
  void leave() override;

 private:
  class Enqueue;
  std::shared_ptr<Clique> clique_for(const CollectiveCall& call);
  std::shared_ptr<Clique> make(const std::string& key, int size, int first_rank, std::vector<int> devices);
  void form_world(std::chrono::milliseconds timeout);
  [[noreturn]] void throw_late(std::chrono::milliseconds timeout) const;

  std::shared_ptr<const Vendor> vendor_;
  EngineOptions options_;
  int device_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Clique>> cliques_;  // by key
  bool over_ = false;
};

/// NCCL on the device of this process. BackendUnavailable says what is missing.
std::unique_ptr<Engine> make_engine(const EngineOptions& options);

}  // namespace unisono::backends::nccl
