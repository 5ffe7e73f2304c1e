#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine_ranks.h"

// Messages over an engine's channels, with nothing above.

namespace unisono::testing {

/// Bytes that differ from one message to the next, and from one byte to the next.
std::vector<std::uint8_t> pattern(std::size_t bytes, std::uint32_t seed);

/// Advances a task to its end. Throws what it throws, and Timeout where it does not end.
void finish(Task& task);
void send_bytes(Engine& engine, const std::vector<std::uint8_t>& data, int peer, std::uint32_t channel = 0);
std::vector<std::uint8_t> receive_bytes(Engine& engine, std::size_t bytes, int peer, std::uint32_t channel = 0);

/// The text of the exception that `step` throws; "" where it throws none.
template <class Step>
std::string error_of(Step&& step) {
  try {
    step();
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

}  // namespace unisono::testing
