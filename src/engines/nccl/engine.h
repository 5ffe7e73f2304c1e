#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "engines/nccl/communicator.h"
#include "unisono/engine.h"

namespace unisono::engines::nccl {

/// A group on NCCL: one communicator of all ranks for collectives, one for each direction between two ranks that exchange messages, so that messages
/// wait only for each other, and one for each number of devices that a process gives at once. All but the first are made when they are needed. A task
/// is done when its operation is enqueued; its completion is reached when the device has carried it out. An engine that was requested by name makes
/// its device the calling thread's current one.
class NcclEngine final : public Engine {
 public:
  NcclEngine(std::shared_ptr<const Vendor> vendor, const EngineOptions& options);
  ~NcclEngine() override;

  std::string_view name() const noexcept override { return "nccl"; }
  Device::Type device_type() const noexcept override { return Device::Type::cuda; }
  Device device() const noexcept override { return {.type = Device::Type::cuda, .index = device_}; }
  std::shared_ptr<DeviceRuntime> runtime() override { return std::make_shared<CudaRuntime>(vendor_, device_); }
  bool offers(const CollectiveCall& call) const override { return Part::offers(call); }
  std::unique_ptr<Task> start(const CollectiveCall& call) override;
  using Events = std::vector<std::shared_ptr<DeviceEvent>>;
  std::unique_ptr<Task> start_device_send(const TensorView& data, int peer, const Events& after) override;
  std::unique_ptr<Task> start_device_recv(const TensorView& data, int peer, const Events& after) override;
  void abort(const Failure& failure) noexcept override;
  void leave() override;

 private:
  template <class Work>
  class Enqueue;
  std::shared_ptr<Communicator> communicator_for(const CollectiveCall& call);
  std::shared_ptr<Communicator> world();
  std::shared_ptr<Communicator> make(const std::string& key, int size, int first_rank, std::vector<int> devices);
  void form_world(std::chrono::milliseconds timeout);
  [[noreturn]] void throw_late(std::chrono::milliseconds timeout) const;

  std::shared_ptr<const Vendor> vendor_;
  EngineOptions options_;
  int device_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Communicator>> communicators_;  // by key
  std::shared_ptr<Communicator> world_;                                 // one of them
  bool over_ = false;
};

/// Describes the device of a process, by its number among those of its host.
OwnDevice own_device(const Vendor& vendor, int local_rank);

/// Makes the engine on the device of this process. Throws BackendUnavailable, which names what is missing.
std::unique_ptr<Engine> make_engine(const EngineOptions& options);

}  // namespace unisono::engines::nccl
