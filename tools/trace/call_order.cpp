#include "trace/call_order.h"

#include <algorithm>

#include "recorder/recorder.h"
#include "unisono/operation.h"

namespace unisono::tools {
namespace {

bool is_known(const recorder::TracedCall& call) { return call.operation >= 1 && call.operation <= operation_table.size(); }
bool is_probe(const recorder::TraceReader& reader, const recorder::TracedCall& call) { return reader.label(call.label) == "probe"; }

}  // namespace

bool is_program_wait(const recorder::TraceReader& reader, const recorder::TracedCall& call) {
  return call.group == 0 && reader.label(call.label) == recorder::wait_label;
}

bool is_collective(const recorder::TraceReader& reader, const recorder::TracedCall& call) {
  return is_known(call) && !is_message(static_cast<Operation>(call.operation)) && !is_program_wait(reader, call);
}

CallOrder::CallOrder(const recorder::TraceReader& reader) : reader_(reader) {
  reader_.each([&](const recorder::TracedCall& call) {
    if (const auto where = key(call)) sequences_[*where].push_back(call.sequence);
  });
  for (auto& [where, sequences] : sequences_) std::ranges::sort(sequences);
}

std::optional<std::uint64_t> CallOrder::number(const recorder::TracedCall& call) const {
  const auto where = key(call);
  const auto found = where ? sequences_.find(*where) : sequences_.end();
  if (found == sequences_.end()) return std::nullopt;
  return static_cast<std::uint64_t>(std::ranges::lower_bound(found->second, call.sequence) - found->second.begin());
}

std::optional<std::uint64_t> CallOrder::key(const recorder::TracedCall& call) const {
  constexpr unsigned group_bit = 40, kind_bit = 36;
  const std::uint64_t group = std::uint64_t{call.group} << group_bit;
  if (is_collective(reader_, call)) return group;
  if (!is_known(call) || is_program_wait(reader_, call) || is_probe(reader_, call) || call.peer < 0) return std::nullopt;
  const bool sends = static_cast<Operation>(call.operation) == Operation::send;
  return group | (std::uint64_t{sends ? 1U : 2U} << kind_bit) | static_cast<std::uint32_t>(call.peer);
}

}  // namespace unisono::tools
