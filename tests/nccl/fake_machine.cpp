#include "fake_machine.h"

#include <unistd.h>

namespace fake {

Machine& machine() {
  static Machine& instance = *new Machine;  // looked at until the very end of the process
  return instance;
}

void note(const std::string& what) {
  if (machine().misuse.empty()) machine().misuse = what;
}

const Machine::Memory* memory_of(const void* address) {
  auto& all = machine().memory;
  auto after = all.upper_bound(static_cast<const std::byte*>(address));
  if (after == all.begin()) return nullptr;
  const auto& [begin, memory] = *std::prev(after);
  return static_cast<const std::byte*>(address) < begin + memory.bytes.size() && !memory.given_back ? &memory : nullptr;
}

bool is_lost_to_a_fork() {
  int& process = machine().initialized_by;
  if (process == 0) process = static_cast<int>(::getpid());
  return process != static_cast<int>(::getpid());
}

std::optional<Rule> told(const std::string& function, int rank) {
  ++machine().calls[function];
  auto& rules = machine().rules[function];
  for (auto it = rules.begin(); it != rules.end(); ++it) {
    if (it->where.rank >= 0 && it->where.rank != rank) continue;
    if (it->where.skip-- > 0) continue;
    const Rule rule = *it;
    rules.erase(it);
    return rule;
  }
  return std::nullopt;
}

void call_during(const std::string& function) {
  std::function<void()> f;
  {
    const std::lock_guard lock(machine().mutex);
    f = std::exchange(machine().during[function], nullptr);
  }
  if (f) f();
}

void pump() {
  Machine& m = machine();
  if (m.stalled) return;
  std::vector<Stream> all(m.streams.begin(), m.streams.end());
  for (const auto& [device, stream] : m.defaults) all.push_back(stream.get());
  for (const auto& stream : m.orphans) all.push_back(stream.get());
  for (bool moved = true; moved;) {
    moved = false;
    for (Stream stream : all) {
      if (m.stalled_devices.contains(stream->device)) continue;
      while (!stream->work.empty() && stream->work.front()()) {
        stream->work.pop_front();
        moved = true;
      }
    }
  }
  std::erase_if(m.orphans, [](const auto& stream) { return stream->work.empty(); });
}

Stream stream_of(Stream stream) {
  if (stream != nullptr) return stream;
  auto& entry = machine().defaults[device_of_thread];
  if (!entry) entry = std::make_unique<CUstream_st>(CUstream_st{device_of_thread, {}});
  return entry.get();
}

}  // namespace fake
