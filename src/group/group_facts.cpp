#include "group/group_facts.h"

#include <algorithm>

#include "base/environment.h"
#include "group/calls/values.h"

namespace unisono::group {

GroupFacts::GroupFacts(const GroupParts& parts)
    : parts_(parts),
      device_(parts.core->device()),
      compares_shapes_(wants_shapes(base::Environment::process())),
      refused_values_(group::refused_values(base::Environment::process())) {}

const std::string& GroupFacts::host_name(int rank) const {
  static const auto& unknown = *new const std::string;
  const auto index = static_cast<std::size_t>(rank);
  return rank >= 0 && index < parts_.host_names.size() ? parts_.host_names[index] : unknown;
}

int GroupFacts::from_record(int recorded) const {
  if (recorded < 0 || parts_.recorded_ranks.empty()) return recorded;
  const auto found = std::ranges::find(parts_.recorded_ranks, recorded);
  return found == parts_.recorded_ranks.end() ? -1 : static_cast<int>(found - parts_.recorded_ranks.begin());
}

ErrorInfo GroupFacts::error_info(std::string_view operation, std::uint64_t sequence, std::optional<int> culprit) const {
  ErrorInfo info;
  info.operation = operation;
  info.group = name();
  info.sequence = sequence;
  info.rank = rank();
  info.world_rank = in_record(rank());
  if (!culprit || *culprit < 0) return info;
  info.culprit = culprit;
  info.world_culprit = in_record(*culprit);
  info.host = host_name(*culprit);
  return info;
}

}  // namespace unisono::group
