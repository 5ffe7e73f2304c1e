#include "messages.h"

#include <sched.h>

#include "base/deadline.h"
#include "unisono/error.h"

namespace unisono::testing {

std::vector<std::uint8_t> pattern(std::size_t bytes, std::uint32_t seed) {
  std::vector<std::uint8_t> values(bytes);
  std::uint32_t state = seed * 2654435761U + 1;
  for (std::uint8_t& value : values) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<std::uint8_t>(state >> 24U);
  }
  return values;
}

void finish(Task& task) {
  const base::Deadline deadline(std::chrono::seconds(60));
  while (!task.advance()) {
    if (deadline.passed()) throw Timeout("a task has not ended within a minute");
    ::sched_yield();
  }
}

void send_bytes(Engine& engine, const std::vector<std::uint8_t>& data, int peer, std::uint32_t channel) {
  finish(*engine.start_send(data.data(), data.size(), peer, channel));
}

std::vector<std::uint8_t> receive_bytes(Engine& engine, std::size_t bytes, int peer, std::uint32_t channel) {
  std::vector<std::uint8_t> data(bytes);
  finish(*engine.start_recv(data.data(), bytes, peer, channel));
  return data;
}

}  // namespace unisono::testing
