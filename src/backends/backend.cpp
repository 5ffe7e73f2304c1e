#include "unisono/backend.h"

#include <fmt/format.h>

#include "unisono/error.h"

namespace unisono {

Task::~Task() = default;
Waiter::~Waiter() = default;
Backend::~Backend() = default;
GroupFailure::~GroupFailure() = default;

void Backend::run(const CollectiveCall& call, Waiter& waiter) {
  const auto task = start(call);
  if (!task->advance()) waiter.wait(*task);
}

std::unique_ptr<Task> Backend::start_probe(const MessageCall&) {
  throw Unsupported(fmt::format("backend {} cannot tell what a message is before it is received", name()),
                    {.operation = "probe", .hint = "send the length first, or agree on it"});
}

std::string_view to_string(Operation operation) noexcept {
  switch (operation) {
    case Operation::barrier: return "barrier";
    case Operation::all_reduce: return "all_reduce";
    case Operation::reduce: return "reduce";
    case Operation::broadcast: return "broadcast";
    case Operation::all_gather: return "all_gather";
    case Operation::gather: return "gather";
    case Operation::scatter: return "scatter";
    case Operation::reduce_scatter: return "reduce_scatter";
    case Operation::all_to_all: return "all_to_all";
    case Operation::scan: return "scan";
    case Operation::exscan: return "exscan";
    case Operation::send: return "send";
    case Operation::recv: return "recv";
    case Operation::all_gather_v: return "all_gather_v";
    case Operation::gather_v: return "gather_v";
    case Operation::scatter_v: return "scatter_v";
    case Operation::reduce_scatter_v: return "reduce_scatter_v";
    case Operation::all_to_all_v: return "all_to_all_v";
  }
  return "unknown operation";
}

}  // namespace unisono
