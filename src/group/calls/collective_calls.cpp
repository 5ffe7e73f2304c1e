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

std::shared_ptr<detail::PrologueEpilogue> edges_of(CollectiveCall& call, const detail::Request& request) {
  auto product = product_of(call);
  return product ? product : request.edges;
}

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

void CollectiveCalls::run(const detail::Request& request, const CallOptions& options) {
  const std::string_view operation = detail::name_of(request);
  const Entry entry = calls_.enter(operation);
  CollectiveCall call = check_collective(calls_.facts(), request, options);
  call.sequence = calls_.begin(operation);
  const bool on_device = is_on_device(call);
  // The work that a device has yet to do is watched when the call has returned.
  if (on_device) [[unlikely]] {
    calls_.get_ready(operation, call.sequence);
    name_stream(call);
  }
  if (calls_.lane()->has_collectives()) return run_in_turn(call, request, options);
  calls_.throw_deferred();  // of an operation that was still under way a moment ago
  recorder::Recording recording(calls_.recorder(), calls_.facts_of(call, options));
  std::unique_ptr<Packing> packing;
  std::shared_ptr<detail::PrologueEpilogue> product;
  detail::PrologueEpilogue* edges = request.edges.get();
  StatePtr left;  // to the device
  try {           // where this rank has no memory for it, the others must not wait
    BlockingWaiter waiter(calls_.errors(), operation, call.sequence, calls_.timeout_of(options), recording.call());
    if (on_device) [[unlikely]] {
      auto watched = calls_.pending(operation, call.sequence, options, recording.call());
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
      run_collective(calls_.core(), call, waiter);
    }
  } catch (...) {
    calls_.errors().rethrow_as_error(operation, call.sequence);
  }
  if (packing) [[unlikely]]
    packing->finish();
  recording.succeed();
  if (left) [[unlikely]]
    left->order_stream();
}

void CollectiveCalls::run_in_turn(CollectiveCall& call, const detail::Request& request, const CallOptions& options) {
  const auto edges = surroundings(call, request);
  const auto make = [&] { return task_of(call, edges, request, options); };
  const auto record = calls_.recorder().queue(calls_.facts_of(call, options));
  const auto state = calls_.progress().submit(calls_.lane(), Lane::Kind::collective,
                                              calls_.pending(detail::name_of(request), call.sequence, options, record), std::ref(make));
  calls_.finish(*state);
}

void CollectiveCalls::run(const detail::Request& request, const CallOptions& options, const std::function<void()>& issued) {
  const std::string_view operation = detail::name_of(request);
  Entry entry = calls_.enter(operation);
  CollectiveCall call = check_collective(calls_.facts(), request, options);
  call.sequence = calls_.begin(operation);
  if (calls_.facts().device() || is_on_device(call)) calls_.get_ready(operation, call.sequence);
  if (is_on_device(call)) name_stream(call);
  const auto edges = surroundings(call, request);
  StatePtr state;
  recorder::Recording recording(calls_.recorder(), calls_.facts_of(call, options));
  const auto describe = [&] { return calls_.pending(operation, call.sequence, options, recording.call()); };
  const auto make = [&] { return task_of(call, edges, request, options); };
  const auto next = [&] {
    entry.leave();
    issued();
  };
  try {
    const auto memory = is_on_device(call) ? Progress::Memory::device : Progress::Memory::host;
    state = calls_.progress().carry_out(calls_.lane(), memory, std::cref(describe), std::cref(make), std::cref(next));
  } catch (...) {
    calls_.errors().rethrow_as_error(operation, call.sequence);
  }
  recording.succeed();
  if (!state) return;
  if (const auto error = state->error_now()) std::rethrow_exception(error);
  state->order_stream();
}

std::shared_ptr<detail::PrologueEpilogue> CollectiveCalls::surroundings(CollectiveCall& call, const detail::Request& request) {
  if (is_on_device(call)) return request.edges;
  try {
    return edges_of(call, request);
  } catch (...) {
    calls_.errors().abort_after(std::current_exception());
    throw;
  }
}

Work CollectiveCalls::start(const detail::Request& request, const CallOptions& options) {
  const std::string_view operation = detail::name_of(request);
  const Entry entry = calls_.enter(operation);
  CollectiveCall call = check_collective(calls_.facts(), request, options);
  call.sequence = calls_.begin(operation);
  calls_.get_ready(operation, call.sequence);
  const auto edges = surroundings(call, request);
  const auto make = [&] { return task_of(call, edges, request, options); };  // by reference: a copy of it would take memory
  auto pending = calls_.pending(operation, call.sequence, options, calls_.recorder().queue(calls_.facts_of(call, options)));
  return calls_.progress().submit(calls_.lane(), Lane::Kind::collective, std::move(pending), std::ref(make)).work();
}

void CollectiveCalls::assemble(std::chrono::milliseconds timeout) {
  constexpr std::string_view operation = "initialize";
  CollectiveCall call;
  call.label = operation;
  try {
    const recorder::Recorder::Call none;  // the record is of the program's calls
    BlockingWaiter waiter(calls_.errors(), operation, 0, timeout, none);
    calls_.core().executor().run(call, waiter);
  } catch (const Mismatch&) {
    std::rethrow_exception(calls_.errors().complete(std::current_exception(), operation, 0));
  } catch (const GroupFailure& over) {
    std::rethrow_exception(calls_.errors().fail(over.failure(), operation, 0));
  }
}

}  // namespace unisono::group
