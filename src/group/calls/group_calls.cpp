#include "group/calls/group_calls.h"

#include <utility>

namespace unisono::group {

GroupCalls::GroupCalls(const GroupParts& parts, GroupFacts& facts, GroupErrors& errors)
    : parts_(parts),
      facts_(facts),
      errors_(errors),
      number_(parts.recorder->add_group(facts.name(), facts.size(), {.generation = parts.generation, .rank = facts.in_record(facts.rank())})),
      lane_(std::make_shared<Lane>()) {
  parts_.progress->add(lane_);
}

GroupCalls::~GroupCalls() { parts_.progress->remove(lane_); }

void GroupCalls::throw_deferred() {
  if (!lane_->deferred.is_set()) return;
  if (auto error = lane_->deferred.take()) std::rethrow_exception(error);
}

std::uint64_t GroupCalls::begin(std::string_view operation) {
  throw_deferred();
  const std::uint64_t sequence = facts_.count_call();
  lane_->last_call.store(sequence, std::memory_order_relaxed);
  if (auto failure = errors_.coordination().failure()) [[unlikely]]
    std::rethrow_exception(errors_.fail(*failure, operation, sequence));
  return sequence;
}

recorder::CallFacts GroupCalls::facts_of(const MessageCall& call, Operation operation, const CallOptions& options) const {
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

Pending GroupCalls::pending(std::string_view operation, std::uint64_t sequence, const CallOptions& options, const recorder::Recorder::Call& record,
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

StatePtr GroupCalls::watch(const Task& task, Pending pending) {
  auto completion = task.completion();
  return completion ? parts_.progress->watch(lane_, std::move(pending), std::move(completion)) : nullptr;
}

void GroupCalls::finish(detail::WorkState& state) {
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

void GroupCalls::get_ready(std::string_view operation, std::uint64_t sequence) {
  try {
    parts_.progress->get_ready();
  } catch (const Error& error) {
    errors_.abort_after(std::current_exception());
    ErrorInfo info = error.info();
    info.operation = operation;
    info.group = facts_.name();
    info.sequence = sequence;
    info.rank = facts_.rank();
    throw Error(error.message(), std::move(info));
  }
}

}  // namespace unisono::group
