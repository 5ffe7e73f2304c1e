#include "unisono/engine.h"

#include <fmt/format.h>

#include "kernels/reduce.h"
#include "unisono/error.h"

namespace unisono {

Engine::~Engine() = default;

std::unique_ptr<Task> Engine::start(const CollectiveCall& call) { throw Unsupported(fmt::format("engine {} has no {}", name(), name_of(call))); }
void Engine::run(const CollectiveCall& call) { throw Unsupported(fmt::format("engine {} has no {}", name(), name_of(call))); }
std::unique_ptr<Task> Engine::start_send(const void*, std::size_t, int, std::uint32_t) {
  throw Unsupported(fmt::format("engine {} has no channels", name()));
}
std::unique_ptr<Task> Engine::start_recv(void*, std::size_t, int, std::uint32_t) {
  throw Unsupported(fmt::format("engine {} has no channels", name()));
}

void combine(DType dtype, ReduceOp op, void* into, const void* with, std::size_t count) {
  if (op == ReduceOp::avg) throw InvalidArgument("an average is no operation of two elements: sum, and divide once");
  if (count == 0) return;
  const void* inputs[] = {into, with};
  kernels::reduce(into, inputs, 2, count, dtype, op, 2);
}

}  // namespace unisono
