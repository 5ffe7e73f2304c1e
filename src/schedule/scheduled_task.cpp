#include "schedule/scheduled_task.h"

#include <algorithm>
#include <cstring>

#include "base/eager.h"
#include "kernels/reduce.h"

namespace unisono::schedule {

using base::collective_channel;

void combine_all(const CollectiveCall& call, void* out, std::span<const void* const> inputs, std::size_t count, ReduceOp op, std::size_t divisor) {
  const DType dtype = call.in.dtype();
  if (!call.custom) return kernels::reduce(out, inputs.data(), inputs.size(), count, dtype, op, divisor);
  if (inputs.front() != out) std::memmove(out, inputs.front(), count * size_of(dtype));
  for (const void* const input : inputs.subspan(1)) call.custom->combine(out, input, count);
}

ScheduledTask::ScheduledTask(LevelEngines& engines, const CollectiveCall& call, Schedule schedule)
    : engines_(engines), call_(call), schedule_(std::move(schedule)), attribution_(engines.attribution()) {
  if (schedule_.scratch > 0) scratch_ = engines_.scratch().take(schedule_.scratch * size_of(call_.in.dtype()));
}

bool ScheduledTask::advance() {
  while (advance_wave()) {
    if (stops_ || is_at_end()) return true;
    begin_wave();
  }
  return false;
}

/// Advances the steps of the wave that has begun; returns true when all are done.
bool ScheduledTask::advance_wave() {
  if (attribution_.is_holding()) return attribution_.advance();
  if (active_.empty()) return true;
  engines_.coordination().poll();
  return attribution_.guard([&] {
    std::erase_if(active_, [](const Active& active) { return active.task->advance(); });
    return active_.empty();
  });
}

void ScheduledTask::begin_wave() {
  const std::uint32_t wave = schedule_.steps[next_].wave;
  for (; !is_at_end() && schedule_.steps[next_].wave == wave && !attribution_.is_holding(); ++next_) {
    const Step& step = schedule_.steps[next_];
    const std::shared_ptr<Engine>& engine = engines_.at(step.level);
    const auto add = [&](std::unique_ptr<Task> task) { active_.push_back({step.level, step.peer, std::move(task)}); };
    if (step.is_local()) {
      carry_out_here(step);
      continue;
    }
    try {
      if (step.kind == Step::Kind::engine) add(engines_.start(engine, engine_call(step)));
      else if (step.kind == Step::Kind::send) add(engine->start_send(tensor(step.in).data(), tensor(step.in).bytes(), step.peer, collective_channel));
      else add(engine->start_recv(tensor(step.out).data(), tensor(step.out).bytes(), step.peer, collective_channel));
    } catch (...) {
      attribution_.hold_current();
    }
  }
}

Engine* ScheduledTask::next_that_blocks() const {
  const Step& step = schedule_.steps[next_];
  if (step.kind != Step::Kind::engine || step.level == Level::host) return nullptr;
  Engine* const engine = engines_.at(step.level).get();
  return engine->blocks() ? engine : nullptr;
}

std::byte* ScheduledTask::address(const Slice& slice) const {
  const std::size_t offset = slice.begin * size_of(call_.in.dtype());
  switch (slice.memory) {
    case Slice::Memory::input: return static_cast<std::byte*>(call_.in.data()) + offset;
    case Slice::Memory::output: return static_cast<std::byte*>(call_.out.data()) + offset;
    case Slice::Memory::scratch: return scratch_ + offset;
  }
  return nullptr;
}

TensorView ScheduledTask::tensor(const Slice& slice) const { return {slice.count == 0 ? nullptr : address(slice), call_.in.dtype(), slice.count}; }

CollectiveCall ScheduledTask::engine_call(const Step& step) const {
  CollectiveCall call;
  call.operation = step.call.operation;
  call.in = tensor(step.in);
  call.out = tensor(step.out);
  call.count = step.call.count;
  call.op = step.call.op;
  if (reduces(call.operation)) call.custom = call_.custom;
  call.root = step.call.root;
  call.counts = step.call.counts;
  call.recv_counts = step.call.recv_counts;
  call.sequence = call_.sequence;
  call.follows_others = step.wave != schedule_.steps.front().wave;
  return call;
}

void ScheduledTask::carry_out_here(const Step& step) const {
  switch (step.kind) {
    case Step::Kind::copy:
      if (address(step.in) != address(step.out)) std::memmove(address(step.out), address(step.in), step.in.count * size_of(call_.in.dtype()));
      return;
    case Step::Kind::reduce: return reduce(step);
    case Step::Kind::combine: return combine(step);
    case Step::Kind::divide: {
      const void* input = address(step.out);
      kernels::reduce(address(step.out), &input, 1, step.out.count, call_.in.dtype(), ReduceOp::avg, step.divisor);
      return;
    }
    case Step::Kind::send:
    case Step::Kind::receive:
    case Step::Kind::engine: return;
  }
}

void ScheduledTask::reduce(const Step& step) const {
  const std::size_t bytes = step.out.count * size_of(call_.in.dtype());
  std::vector<const void*> inputs;
  for (std::size_t i = 0; i < step.blocks; ++i) inputs.push_back(address(step.in) + i * bytes);
  combine_all(call_, address(step.out), inputs, step.out.count, step.op, step.divisor);
}

void ScheduledTask::combine(const Step& step) const {
  std::byte* const out = address(step.out);
  const std::byte* const left = address(step.in);
  const std::byte* right = address(step.with);
  std::vector<std::byte> kept;  // the right one, if the left one takes its place
  if (call_.custom && out == right && out != left) {
    kept.assign(right, right + step.out.count * size_of(call_.in.dtype()));
    right = kept.data();
  }
  const void* const inputs[] = {left, right};
  combine_all(call_, out, inputs, step.out.count, step.op, step.divisor);
}

std::vector<int> ScheduledTask::names_of(const Active& active) const {
  std::vector<int> ranks = active.peer >= 0 ? std::vector<int>{active.peer} : active.task->waiting_for();
  const coordination::GroupTopology& topology = engines_.coordination().topology();
  if (active.level == Level::group) return ranks;
  const std::vector<int>& names = active.level == Level::host ? topology.members : topology.rail;
  for (int& r : ranks) r = names[static_cast<std::size_t>(r)];
  return ranks;
}

std::vector<int> ScheduledTask::waiting_for() const {
  if (attribution_.is_holding()) return {};
  std::vector<int> all;
  for (const Active& active : active_) {
    for (const int r : names_of(active)) {
      if (std::ranges::find(all, r) == all.end()) all.push_back(r);
    }
  }
  return all;
}

// Every step of a wave must end, so it is enough to wait for one of them, unless one ends where this rank cannot sleep.
bool ScheduledTask::sleep(std::chrono::nanoseconds at_most) {
  if (attribution_.is_holding() || active_.empty() ||
      std::ranges::any_of(active_, [](const Active& active) { return active.level == Level::host; })) {
    return false;
  }
  return active_.front().task->sleep(at_most);
}

bool ScheduledTask::wakes_waiter() const {
  return !attribution_.is_holding() && std::ranges::all_of(active_, [](const Active& active) { return active.task->wakes_waiter(); });
}

}  // namespace unisono::schedule
