#include "group/group.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <utility>

#include "base/error_text.h"
#include "base/log.h"
#include "group/callables.h"
#include "group/check.h"
#include "group/device_task.h"
#include "group/entry.h"
#include "group/host_staging.h"
#include "group/packing.h"
#include "group/shapes.h"
#include "group/waiter.h"
#include "unisono/cuda.h"

namespace unisono::group {
namespace {

std::shared_ptr<detail::PrologueEpilogue> edges_of(CollectiveCall& call, const detail::Request& request) {
  auto product = product_of(call);
  return product ? product : request.edges;
}

GroupParts clamped(GroupParts parts) {
  parts.timeout = base::clamped(parts.timeout);
  return parts;
}

}  // namespace

Group::Group(GroupParts parts)
    : parts_(clamped(std::move(parts))),
      facts_(parts_),
      errors_(parts_, facts_, [this] { return std::shared_ptr<GroupErrors>(shared_from_this(), &errors_); }),
      seals_(coordination(), core().executor().name()),
      number_(parts_.recorder->add_group(name(), size(), {.generation = parts_.generation, .rank = facts_.in_record(rank())})),
      exceptions_(std::uncaught_exceptions()),
      lane_(std::make_shared<Lane>()) {
  parts_.progress->add(lane_);
}

Group::~Group() {
  parts_.progress->remove(lane_);
  // The ranks that still wait for this one learn that it will not come.
  using enum coordination::Leaving;
  if (!in_forked_child()) drop(std::uncaught_exceptions() > exceptions_ ? by_exception : let_go);
}

HostStaging& Group::staging(DeviceRuntime& runtime) {
  if (!staging_) staging_ = std::make_unique<HostStaging>(runtime);
  return *staging_;
}

void Group::throw_deferred() {
  if (!lane_->deferred.is_set()) return;
  if (auto error = lane_->deferred.take()) std::rethrow_exception(error);
}

std::uint64_t Group::begin(std::string_view operation) {
  throw_deferred();
  const std::uint64_t sequence = facts_.count_call();
  lane_->last_call.store(sequence, std::memory_order_relaxed);
  if (auto failure = coordination().failure()) [[unlikely]]
    std::rethrow_exception(errors_.fail(*failure, operation, sequence));
  return sequence;
}

recorder::CallFacts Group::facts_of(const CollectiveCall& call, const CallOptions& options) const {
  return {.operation = call.operation,
          .label = call.label,
          .group = number_,
          .sequence = call.sequence,
          .bytes = call.in.numel() != 0 ? call.in.bytes() : call.out.bytes(),
          .dtype = call.in.dtype(),
          .peer = facts_.in_record(call.root),
          .where = options.where};
}

recorder::CallFacts Group::facts_of(const MessageCall& call, Operation operation, const CallOptions& options) const {
  return {.operation = operation,
          .label = call.label,
          .group = number_,
          .sequence = call.sequence,
          .bytes = call.data.bytes(),
          .dtype = call.data.dtype(),
          .peer = facts_.in_record(call.peer),
          .tag = call.tag,
          .where = options.where};
}

Pending Group::pending(std::string_view operation, std::uint64_t sequence, const CallOptions& options, const recorder::Recorder::Call& record,
                       std::size_t buffered) {
  return {.state = nullptr,
          .task = nullptr,
          .group = errors_.share(),
          .operation = std::string(operation),
          .sequence = sequence,
          .where = options.where,
          .record = record,
          .deadline = base::Deadline(timeout_of(options)),
          .buffered = buffered};
}

std::unique_ptr<Task> Group::task_of(const CollectiveCall& call, const std::shared_ptr<detail::PrologueEpilogue>& edges,
                                     const detail::Request& request, const CallOptions& options) {
  if (!is_on_device(call)) [[likely]]
    return packed_task(core(), call, edges);
  return device_task(*this, call, request, options, [this] { return lane_->last_on_device(); });
}
std::unique_ptr<Task> Group::task_of(const MessageCall& call, bool sends) {
  if (!is_on_device(call.data)) [[likely]]
    return packed_task(core(), call, sends);
  return device_task(*this, call, sends);
}

/// Lets the engine of devices put a call on the stream of its caller, who waits until it is there.
static void name_stream(CollectiveCall& call) {
  if (call.device) return;
  call.device = std::make_shared<DeviceCall>();
  call.device->stream = current_stream();
}

void Group::run(const detail::Request& request, const CallOptions& options) {
  const std::string_view operation = detail::name_of(request);
  const Entry entry(errors_, busy_, operation);
  CollectiveCall call = check_collective(facts_, request, options);
  call.sequence = begin(operation);
  const bool on_device = is_on_device(call);
  // The work that a device has yet to do is watched when the call has returned.
  if (on_device) [[unlikely]] {
    get_ready(operation, call.sequence);
    name_stream(call);
  }
  if (lane_->has_collectives()) return run_in_turn(call, request, options);
  throw_deferred();  // of an operation that was still under way a moment ago
  recorder::Recording recording(*parts_.recorder, facts_of(call, options));
  std::unique_ptr<Packing> packing;
  std::shared_ptr<detail::PrologueEpilogue> product;
  detail::PrologueEpilogue* edges = request.edges.get();
  StatePtr left;  // to the device
  try {           // where this rank has no memory for it, the others must not wait
    BlockingWaiter waiter(errors_, operation, call.sequence, timeout_of(options), recording.call());
    if (on_device) [[unlikely]] {
      auto watched = pending(operation, call.sequence, options, recording.call());
      watched.collective = true;
      const auto task = task_of(call, request.edges, request, options);
      if (!task->advance()) waiter.wait(*task);
      left = watch(*task, std::move(watched));
    } else {
      if (call.factor) [[unlikely]] {
        product = product_of(call);
        edges = product.get();
      }
      if (Packing::is_needed(call, edges)) [[unlikely]]
        packing = std::make_unique<Packing>(call, edges);
      run_collective(core(), call, waiter);
    }
  } catch (...) {
    errors_.rethrow_as_error(operation, call.sequence);
  }
  if (packing) [[unlikely]]
    packing->finish();
  recording.succeed();
  if (left) [[unlikely]]
    left->order_stream();
}

void Group::run_in_turn(CollectiveCall& call, const detail::Request& request, const CallOptions& options) {
  const auto edges = surroundings(call, request);
  const auto make = [&] { return task_of(call, edges, request, options); };
  const auto record = parts_.recorder->queue(facts_of(call, options));
  const auto state =
      parts_.progress->submit(lane_, Lane::Kind::collective, pending(detail::name_of(request), call.sequence, options, record), std::ref(make));
  finish(*state);
}

StatePtr Group::watch(const Task& task, Pending pending) {
  auto completion = task.completion();
  return completion ? parts_.progress->watch(lane_, std::move(pending), std::move(completion)) : nullptr;
}

void Group::run(const detail::Request& request, const CallOptions& options, const std::function<void()>& issued) {
  const std::string_view operation = detail::name_of(request);
  std::optional<Entry> entry(std::in_place, errors_, busy_, operation);
  CollectiveCall call = check_collective(facts_, request, options);
  call.sequence = begin(operation);
  if (facts_.device() || is_on_device(call)) get_ready(operation, call.sequence);
  if (is_on_device(call)) name_stream(call);
  const auto edges = surroundings(call, request);
  StatePtr state;
  recorder::Recording recording(*parts_.recorder, facts_of(call, options));
  const auto describe = [&] { return pending(operation, call.sequence, options, recording.call()); };
  const auto make = [&] { return task_of(call, edges, request, options); };
  const auto next = [&] {
    entry.reset();
    issued();
  };
  try {
    const auto memory = is_on_device(call) ? Progress::Memory::device : Progress::Memory::host;
    state = parts_.progress->carry_out(lane_, memory, std::cref(describe), std::cref(make), std::cref(next));
  } catch (...) {
    errors_.rethrow_as_error(operation, call.sequence);
  }
  recording.succeed();
  if (!state) return;
  if (const auto error = state->error_now()) std::rethrow_exception(error);
  state->order_stream();
}

std::shared_ptr<detail::PrologueEpilogue> Group::surroundings(CollectiveCall& call, const detail::Request& request) {
  if (is_on_device(call)) return request.edges;
  try {
    return edges_of(call, request);
  } catch (...) {
    errors_.abort_after(std::current_exception());
    throw;
  }
}

void Group::finish(detail::WorkState& state) {
  try {
    parts_.progress->wait(state);
  } catch (...) {  // an interrupted operation must not go on with memory that its caller takes back
    errors_.abort_after(std::current_exception());
    parts_.progress->wait(state);
    throw;
  }
  if (const auto error = state.error_now()) std::rethrow_exception(error);
  state.order_stream();
}

void Group::get_ready(std::string_view operation, std::uint64_t sequence) {
  try {
    parts_.progress->get_ready();
  } catch (const Error& error) {
    errors_.abort_after(std::current_exception());
    ErrorInfo info = error.info();
    info.operation = operation;
    info.group = name();
    info.sequence = sequence;
    info.rank = rank();
    throw Error(error.message(), std::move(info));
  }
}

Work Group::start(const detail::Request& request, const CallOptions& options) {
  const std::string_view operation = detail::name_of(request);
  const Entry entry(errors_, busy_, operation);
  CollectiveCall call = check_collective(facts_, request, options);
  call.sequence = begin(operation);
  get_ready(operation, call.sequence);
  const auto edges = surroundings(call, request);
  const auto make = [&] { return task_of(call, edges, request, options); };  // by reference: a copy of it would take memory
  auto pending = this->pending(operation, call.sequence, options, parts_.recorder->queue(facts_of(call, options)));
  return parts_.progress->submit(lane_, Lane::Kind::collective, std::move(pending), std::ref(make)).work();
}

void Group::assemble(std::chrono::milliseconds timeout) {
  constexpr std::string_view operation = "initialize";
  CollectiveCall call;
  call.label = operation;
  try {
    const recorder::Recorder::Call none;  // the record is of the program's calls
    BlockingWaiter waiter(errors_, operation, 0, timeout, none);
    core().executor().run(call, waiter);
  } catch (const Mismatch&) {
    std::rethrow_exception(errors_.complete(std::current_exception(), operation, 0));
  } catch (const GroupFailure& over) {
    std::rethrow_exception(errors_.fail(over.failure(), operation, 0));
  }
}

}  // namespace unisono::group
