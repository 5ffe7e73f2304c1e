#include "unisono/engine.h"

#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "kernels/reduce.h"
#include "unisono/error.h"

namespace unisono {
namespace {

/// A receive into memory that it owns.
class Discarding final : public Task {
 public:
  Discarding(std::vector<std::byte> room, std::unique_ptr<Task> task) : room_(std::move(room)), task_(std::move(task)) {}
  bool advance() override { return task_->advance(); }
  std::vector<int> waiting_for() const override { return task_->waiting_for(); }
  bool wakes_waiter() const override { return task_->wakes_waiter(); }
  Arrival arrival() const override { return task_->arrival(); }

 private:
  std::vector<std::byte> room_;
  std::unique_ptr<Task> task_;
};

}  // namespace

Engine::~Engine() = default;

std::unique_ptr<Task> Engine::start(const CollectiveCall& call) { throw Unsupported(fmt::format("engine {} has no {}", name(), name_of(call))); }
void Engine::run(const CollectiveCall& call) { throw Unsupported(fmt::format("engine {} has no {}", name(), name_of(call))); }
void Engine::carry_out(const CollectiveCall& call, Waiter& waiter) {
  if (blocks()) return run(call);
  const auto task = start(call);
  if (!task->advance()) waiter.wait(*task);
}
std::unique_ptr<Task> Engine::start_device_send(const TensorView&, int, const std::vector<std::shared_ptr<DeviceEvent>>&) {
  throw Unsupported(fmt::format("engine {} sends no memory of devices", name()));
}
std::unique_ptr<Task> Engine::start_device_recv(const TensorView&, int, const std::vector<std::shared_ptr<DeviceEvent>>&) {
  throw Unsupported(fmt::format("engine {} receives no memory of devices", name()));
}
std::unique_ptr<Task> Engine::start_send(const void*, std::size_t, int, std::uint32_t) {
  throw Unsupported(fmt::format("engine {} has no channels", name()));
}
std::unique_ptr<Task> Engine::start_recv(void*, std::size_t, int, std::uint32_t) {
  throw Unsupported(fmt::format("engine {} has no channels", name()));
}

std::unique_ptr<Task> Engine::start_discard(std::size_t bytes, int peer, std::uint32_t channel) {
  std::vector<std::byte> room;
  try {
    room.resize(bytes);
  } catch (const std::exception&) {  // std::bad_alloc, or std::length_error
    throw ProtocolError(fmt::format("rank {} sends {} bytes that no rank asks for, and there is no room to receive them", peer, bytes),
                        {.culprit = peer});
  }
  void* const data = room.data();
  return std::make_unique<Discarding>(std::move(room), start_recv(data, bytes, peer, channel));
}

void combine(DType dtype, ReduceOp op, void* into, const void* with, std::size_t count) {
  if (op == ReduceOp::avg) throw InvalidArgument("an average is not an operation of two elements: sum, and divide once");
  if (count == 0) return;
  const void* inputs[] = {into, with};
  kernels::reduce(into, inputs, 2, count, dtype, op, 2);
}

void divide(DType dtype, void* data, std::size_t count, int divisor) {
  if (count == 0) return;
  const void* const input = data;
  kernels::reduce(data, &input, 1, count, dtype, ReduceOp::avg, static_cast<std::size_t>(divisor));
}

}  // namespace unisono
