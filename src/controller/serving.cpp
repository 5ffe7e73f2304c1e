#include "controller/serving.h"

#include <fmt/format.h>

#include <utility>

#include "base/error_text.h"
#include "controller/errors.h"
#include "controller/functions.h"
#include "controller/incoming.h"
#include "unisono/error.h"

namespace unisono::controller {
namespace {

/// A worker receives so much ahead of its work. What comes later is received later, and can be cancelled only then.
constexpr std::size_t most_ahead = std::size_t{64} << 20;
/// So many calls without results are acknowledged together.
constexpr std::uint64_t acknowledged_together = 256;

}  // namespace

const Objects::Object& Objects::find(const detail::RemoteFunction& function, std::uint64_t id) const {
  const auto found = objects_.find(id);
  if (found == objects_.end()) {
    throw InvalidArgument(fmt::format("the object of {} is gone from this worker", function.actor),
                          {.hint = "it was released, or it was on a process that this one has replaced: make another one"});
  }
  const Object& object = found->second;
  if (!object.object) throw InvalidArgument(fmt::format("there is no object: making the {} has failed: {}", object.actor, object.failure));
  if (object.actor != function.actor)
    throw InvalidArgument(fmt::format("the object is a {}, and {} is of {}", object.actor, function.name, function.actor));
  return object;
}

detail::Frame Objects::run(const detail::RemoteFunction& function, int worker, std::uint64_t id, detail::Frame&& arguments) {
  using FunctionKind = detail::RemoteFunction::Kind;
  detail::RemoteRun run{.worker = worker, .object = {}, .object_id = id};
  if (function.kind == FunctionKind::method) run.object = find(function, id).object;
  if (function.kind != FunctionKind::maker) return function.run(run, std::move(arguments));
  try {
    detail::Frame result = function.run(run, std::move(arguments));
    objects_[id] = {.object = std::move(run.object), .actor = function.actor, .failure = "it has made none"};
    return result;
  } catch (...) {
    note_failure(function, id, base::what_of(std::current_exception()));
    throw;
  }
}

void Objects::note_failure(const detail::RemoteFunction& maker, std::uint64_t id, std::string text) {
  if (maker.kind != detail::RemoteFunction::Kind::maker) return;
  objects_[id] = {.object = {}, .actor = maker.actor, .failure = std::move(text)};
}

Service::Service(std::unique_ptr<FrameLink> link, int worker, Objects& objects, recorder::Recorder& recorder)
    : link_(std::move(link)), worker_(worker), objects_(objects), recorder_(recorder), group_(recorder.add_group("calls", 1)) {}

void Service::cancel(std::uint64_t sequence) {
  for (Item& item : queue_) {
    if (item.head.kind != Kind::call || item.head.sequence != sequence) continue;
    item.is_cancelled = true;
    queued_bytes_ -= bytes_of(item.frame);
    item.frame = {};
  }
}

void Service::receive() {
  Item item;
  link_->receive(item.head);
  if (item.head.kind == Kind::cancel) return cancel(item.head.sequence);
  if (item.head.kind == Kind::call) {
    item.function = function_of(item.head.function);
    static const auto& any_memory = *new const detail::PartMemory;
    Incoming rest(*link_, item.head, Incoming::Receives::wait);
    rest.open(item.function == nullptr ? any_memory : item.function->memory);
    rest.start_parts();
    rest.check();
    item.error = rest.error();
    if (!item.error) item.frame = rest.take();
  }
  queued_bytes_ += bytes_of(item.frame);
  queue_.push_back(std::move(item));
}

/// Nothing comes after the last frame, and the controller may be gone by then.
void Service::receive_what_has_come() {
  const auto is_last = [](const Item& item) { return item.head.kind == Kind::end || item.head.kind == Kind::regroup; };
  while (queued_bytes_ < most_ahead && (queue_.empty() || !is_last(queue_.back())) && link_->has_come()) receive();
}

void Service::answer(Kind kind, std::uint64_t sequence, detail::Frame&& frame) {
  acknowledged_ = sequence;
  link_->send({.kind = kind, .sequence = sequence}, std::move(frame));
}

/// Returns the function of a call. The memory of the one that was known when the call came has its arguments. A call before this one may have
/// registered another since, which takes arguments that lie in any memory.
const detail::RemoteFunction* Service::function_for(const Item& item) {
  if (item.function != nullptr) return item.function;
  const detail::RemoteFunction* const registered = function_of(item.head.function);
  const bool takes_any_memory = registered == nullptr || !registered->memory || item.frame.parts.empty();
  return takes_any_memory ? registered : nullptr;
}

void Service::run_call(Item& item) {
  const Head& head = item.head;
  detail::Frame result;
  bool went_well = false;
  try {
    const detail::RemoteFunction* const function = function_for(item);
    if (item.error && function != nullptr) objects_.note_failure(*function, head.object, base::what_of(item.error));
    if (item.error) std::rethrow_exception(item.error);
    if (function == nullptr) throw InvalidArgument("this worker has no function of that name and signature", {.hint = "every process registers it"});
    recorder::Recording recording(recorder_, {.label = function->name, .group = group_, .sequence = head.sequence});
    result = objects_.run(*function, worker_, head.object, std::move(item.frame));
    if (head.has_result != 0) check_limit(result, "the result has");
    recording.succeed();
    went_well = true;
  } catch (...) {
    result = {.body = encode_error(std::current_exception())};
  }
  done_ = head.sequence;
  if (!went_well) return answer(Kind::error, head.sequence, std::move(result));
  if (head.has_result != 0) return answer(Kind::result, head.sequence, std::move(result));
  if (done_ - acknowledged_ >= acknowledged_together) answer(Kind::acknowledged, done_);
}

void Service::carry_out(Item& item) {
  switch (item.head.kind) {
    case Kind::release: return objects_.drop(item.head.object);
    case Kind::flush:
      if (acknowledged_ < item.head.sequence) answer(Kind::acknowledged, done_);
      return;
    case Kind::call:
      if (!item.is_cancelled) return run_call(item);
      if (item.function != nullptr) objects_.note_failure(*item.function, item.head.object, "the call was cancelled before it had begun");
      done_ = item.head.sequence;
      return answer(Kind::cancelled, done_);
    default: throw ProtocolError("a controller has sent something that a worker does not understand");
  }
}

ServiceEnd Service::run() {
  try {
    for (;;) {
      if (queue_.empty()) receive();
      receive_what_has_come();
      if (queue_.empty()) continue;  // it was a cancel that came too late
      Item item = std::move(queue_.front());
      queue_.pop_front();
      queued_bytes_ -= bytes_of(item.frame);
      if (item.head.kind == Kind::end) return ServiceEnd::in_order;
      if (item.head.kind == Kind::regroup) return ServiceEnd::regroup;
      carry_out(item);
    }
  } catch (...) {  // of the connection: what a call throws is its answer
    error_ = std::current_exception();
    return ServiceEnd::lost;
  }
}

}  // namespace unisono::controller
