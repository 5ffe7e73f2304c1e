#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "engines/mpi/communicator.h"
#include "unisono/engine.h"

namespace unisono::engines::mpi {

class RequestTask;

/// A group's communicator as an engine.
class MpiEngine final : public Engine {
 public:
  explicit MpiEngine(const EngineOptions& options);
  ~MpiEngine() override;

  std::string_view name() const noexcept override { return "mpi"; }
  bool offers(const CollectiveCall& call) const override;
  std::unique_ptr<Task> start(const CollectiveCall& call) override;
  /// Returns true where waiting within MPI is faster, and where only the thread that initialised MPI may call it, so that it has to wait there.
  bool blocks() const noexcept override { return blocks_; }
  bool starts() const noexcept override { return true; }
  void run(const CollectiveCall& call) override;
  bool has_channels() const noexcept override { return true; }
  std::unique_ptr<Task> start_send(const void* data, std::size_t bytes, int peer, std::uint32_t channel) override;
  std::unique_ptr<Task> start_recv(void* data, std::size_t bytes, int peer, std::uint32_t channel) override;
  std::uint32_t largest_channel() const noexcept override;
  void abort(const Failure& failure) noexcept override { communicator_->abort(failure); }
  void leave() override;

 private:
  std::unique_ptr<Task> start(std::unique_ptr<RequestTask> operation);
  int tag_of(std::uint32_t channel) const;

  std::shared_ptr<Communicator> communicator_;
  const bool crowded_;
  bool blocks_;
};

}  // namespace unisono::engines::mpi
