#include "group/calls/collective_calls.h"

#include <functional>
#include <utility>

#include "group/calls/check.h"
#include "group/calls/packing.h"
#include "group/devices/device_group.h"
#include "group/progress/waiter.h"
#include "unisono/cuda.h"

namespace unisono::group {
namespace {

/// Lets the engine of devices put a call on the stream of its caller, who waits until it is there.
void name_stream(CollectiveCall& call) {
  if (call.device) return;
  call.device = std::make_shared<DeviceCall>();
  call.device->stream = current_stream();
}

}  // namespace

std::unique_ptr<Task> CollectiveCalls::task_of(const CollectiveCall& call, const std::shared_ptr<detail::PrologueEpilogue>& edges,
                                               const detail::Request& request, const CallOptions& options) {
  if (!is_on_device(call)) [[likely]]
    return packed_task(calls_.core(), call, edges);
  return device_task(devices_, call, request, options, [this] { return calls_.lane()->last_on_device(); });
}

// Every call of a few bytes goes through this.
[[gnu::always_inline]] inline CollectiveCalls::Begun::Begun(CollectiveCalls& group, const detail::Request& request, const CallOptions& options)
    : operation(detail::name_of(request)),
      entry(group.calls_.enter(operation)),
      call(check_collective(group.calls_.facts(), request, operation, options)),
      on_device(is_on_device(call)) {
  call.sequence = group.calls_.begin(operation);
}

void CollectiveCalls::run(const detail::Request& request, const CallOptions& options) {
  Begun begun(*this, request, options);
  CollectiveCall& call = begun.call;
  // The work that a device has yet to do is watched when the call has returned.
  if (begun.on_device) [[unlikely]] {
    calls_.get_ready(begun.operation, call.sequence);
    name_stream(call);
  }
  if (calls_.lane()->has_collectives()) return calls_.finish(*submit(begun, request, options));
  calls_.throw_deferred();  // of an operation that was still under way a moment ago

  recorder::Recording recording(calls_.recorder(), calls_.facts_of(call, options));
  std::unique_ptr<Packing> packing;
  std::shared_ptr<detail::PrologueEpilogue> product;
  detail::PrologueEpilogue* edges = request.edges.get();
  StatePtr left;  // to the device
  try {           // where this rank has no memory for it, the others must not wait
    BlockingWaiter waiter(calls_.errors(), begun.operation, call.sequence, calls_.timeout_of(options), recording.call());
    if (begun.on_device) [[unlikely]] {
      auto watched = calls_.pending(begun.operation, call.sequence, options, recording.call());
      watched.collective = true;
      const auto task = task_of(call, request.edges, request, options);
      if (!task->advance()) waiter.wait(*task);
      left = calls_.watch(*task, std::move(watched));
    } else {
      if (call.factor) [[unlikely]] {
        product = product_of(call);
        edges = product.get();
      }
      if (Packing::is_needed(call, edges)) [[unlikely]]
        packing = std::make_unique<Packing>(call, edges);
      if (call.custom) [[unlikely]]
        run_callable(calls_.core(), call, waiter);
      else if (Engine* const comparing = calls_.core().executor().comparing_engine(call.operation)) [[likely]] comparing->carry_out(call, waiter);
      else calls_.core().executor().run(call, waiter);
    }
  } catch (...) {
    std::rethrow_exception(calls_.errors().of_thrown(begun.operation, call.sequence, GroupErrors::Known::to_all).error);
  }
  if (packing) [[unlikely]]
    packing->finish();
  recording.succeed();
  if (left) [[unlikely]]
    left->order_stream();
}

StatePtr CollectiveCalls::submit(Begun& begun, const detail::Request& request, const CallOptions& options) {
  const auto edges = surroundings(begun.call, request);
  const auto make = [&] { return task_of(begun.call, edges, request, options); };  // by reference: a copy of it would take memory
  auto pending = calls_.pending(begun.operation, begun.call.sequence, options, calls_.recorder().queue(calls_.facts_of(begun.call, options)));
  return calls_.progress().submit(calls_.lane(), Lane::Kind::collective, std::move(pending), std::ref(make));
}

void CollectiveCalls::run(const detail::Request& request, const CallOptions& options, const std::function<void()>& issued) {
  Begun begun(*this, request, options);
  CollectiveCall& call = begun.call;
  if (calls_.facts().device() || begun.on_device) calls_.get_ready(begun.operation, call.sequence);
  if (begun.on_device) name_stream(call);
  const auto edges = surroundings(call, request);
  StatePtr state;
  recorder::Recording recording(calls_.recorder(), calls_.facts_of(call, options));
  const auto describe = [&] { return calls_.pending(begun.operation, call.sequence, options, recording.call()); };
  const auto make = [&] { return task_of(call, edges, request, options); };
  const auto next = [&] {
    begun.entry.leave();
    issued();
  };
  try {
    const auto memory = begun.on_device ? Progress::Memory::device : Progress::Memory::host;
    state = calls_.progress().carry_out(calls_.lane(), memory, std::cref(describe), std::cref(make), std::cref(next));
  } catch (...) {
    std::rethrow_exception(calls_.errors().of_thrown(begun.operation, call.sequence, GroupErrors::Known::to_all).error);
  }
  recording.succeed();
  if (!state) return;
  if (const auto error = state->error_now()) std::rethrow_exception(error);
  state->order_stream();
}

std::shared_ptr<detail::PrologueEpilogue> CollectiveCalls::surroundings(CollectiveCall& call, const detail::Request& request) {
  try {
    auto product = product_of(call);
    return product ? product : request.edges;
  } catch (...) {
    calls_.errors().abort_after(std::current_exception());
    throw;
  }
}

Work CollectiveCalls::start(const detail::Request& request, const CallOptions& options) {
  Begun begun(*this, request, options);
  calls_.get_ready(begun.operation, begun.call.sequence);
  return submit(begun, request, options).work();
}

void CollectiveCalls::assemble(std::chrono::milliseconds timeout) {
  constexpr std::string_view operation = "initialize";
  CollectiveCall call;
  call.label = operation;
  try {
    const recorder::Recorder::Call none;  // the record is of the program's calls
    BlockingWaiter waiter(calls_.errors(), operation, 0, timeout, none);
    calls_.core().executor().run(call, waiter);
  } catch (...) {
    std::rethrow_exception(calls_.errors().of_thrown(operation, 0, GroupErrors::Known::to_this_rank).error);
  }
}

}  // namespace unisono::group
