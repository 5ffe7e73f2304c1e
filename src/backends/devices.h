#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "backends/device_messages.h"
#include "unisono/backend.h"
#include "unisono/engine.h"

namespace unisono::backends {

/// A group whose buffers may lie on a device: those go to the device's engine, all others to the host's backend. Before a call reaches the engine the
/// ranks agree on it, and messages find each other, through the host's backend, which also watches the peers: a failure of either is one of both.
class Devices final : public Backend {
 public:
  /// `name`: what the program asked for.
  Devices(std::string name, std::unique_ptr<Backend> host, std::unique_ptr<Engine> engine, int rank, int size);
  ~Devices() override;

  std::string_view name() const noexcept override { return name_; }
  Capabilities capabilities() const override;
  void run(const CollectiveCall& call, Waiter& waiter) override;
  bool offers(const CollectiveCall& call) const override { return engine_->offers(call); }
  /// On a device's memory: of what the engine offers, nothing is composed there.
  std::unique_ptr<Task> start(const CollectiveCall& call) override;
  std::unique_ptr<Task> start_send(const MessageCall& call) override;
  std::unique_ptr<Task> start_recv(const MessageCall& call) override;
  std::unique_ptr<Task> start_probe(const MessageCall& call) override { return host_->start_probe(call); }
  void poison(const Failure& failure) override;
  std::optional<Failure> failure() override;
  std::optional<Failure> look_for_failures(std::span<const int> waiting_for, bool any_will_do) override;
  std::optional<Failure> look_at(std::span<const int> ranks) override { return host_->look_at(ranks); }
  std::vector<int> gone() override { return host_->gone(); }
  engine::Bell* bell() override { return host_->bell(); }
  engine::Bell* bell_of(int rank) override { return host_->bell_of(rank); }
  std::shared_ptr<transport::Link> link() const override { return host_->link(); }
  bool crowded() const override { return host_->crowded(); }
  void leave() override;

 private:
  class Collective;
  void end_engine(const Failure& failure) noexcept;

  std::string name_;
  std::unique_ptr<Backend> host_;
  std::unique_ptr<Engine> engine_;
  Device device_;
  int rank_, size_;
  DeviceMessages messages_;
  std::atomic<bool> engine_over_{false};
};

}  // namespace unisono::backends
