#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "recorder/trace_reader.h"

namespace unisono::tools {

/// True for an operation in which the ranks of a group meet; false for messages, and where the program waits for an asynchronous call.
bool is_collective(const recorder::TraceReader& reader, const recorder::TracedCall& call);
/// True where the program waits for an asynchronous call.
bool is_program_wait(const recorder::TraceReader& reader, const recorder::TracedCall& call);

/// Numbers the calls of a rank that belong to calls of other ranks: the n-th collective of a group, the n-th message to or from a peer. The numbers
/// of the library's own count messages too, so they differ between ranks.
class CallOrder {
 public:
  explicit CallOrder(const recorder::TraceReader& reader);

  /// Returns nothing for a call that is not numbered.
  std::optional<std::uint64_t> number(const recorder::TracedCall& call) const;

 private:
  std::optional<std::uint64_t> key(const recorder::TracedCall& call) const;

  const recorder::TraceReader& reader_;
  std::unordered_map<std::uint64_t, std::vector<std::uint64_t>> sequences_;  // sorted
};

}  // namespace unisono::tools
