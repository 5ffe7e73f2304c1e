#include "unisono/record.h"

#include "context/state.h"
#include "recorder/reader.h"
#include "unisono/context.h"

namespace unisono {
namespace {

std::optional<CallRecord::Time> time_of(std::uint64_t ns) {
  if (ns == 0) return std::nullopt;
  return CallRecord::Time(std::chrono::duration_cast<CallRecord::Time::duration>(std::chrono::nanoseconds(ns)));
}

CallRecord::State state_of(recorder::CallState state) {
  switch (state) {
    case recorder::CallState::queued: return CallRecord::State::queued;
    case recorder::CallState::waiting: return CallRecord::State::waiting;
    case recorder::CallState::done: return CallRecord::State::done;
    case recorder::CallState::failed: return CallRecord::State::failed;
    default: return CallRecord::State::running;
  }
}

std::optional<int> rank_of(int rank) { return rank < 0 ? std::nullopt : std::optional(rank); }

}  // namespace

std::vector<CallRecord> record() {
  const recorder::RankSeen seen = recorder::RecordReader(context::current().recorder->memory()).read();
  std::vector<CallRecord> calls;
  for (const recorder::CallSeen& call : seen.recent) {
    calls.push_back({.operation = call.operation,
                     .group = call.group,
                     .place = call.place,
                     .state = state_of(call.state),
                     .sequence = call.sequence,
                     .bytes = call.bytes,
                     .dtype = call.dtype,
                     .peer = rank_of(call.peer),
                     .queued = time_of(call.queued),
                     .begun = time_of(call.begun),
                     .done = time_of(call.done),
                     .waited_for = rank_of(call.waited_for),
                     .waited_for_count = call.waited_count});
  }
  return calls;
}

std::vector<CallRecord> Context::record() const { return unisono::record(); }

}  // namespace unisono
