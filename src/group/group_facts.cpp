#include "group/group_facts.h"

#include "base/environment.h"
#include "group/shapes.h"

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

ErrorInfo GroupFacts::error_info(std::string_view operation, std::uint64_t sequence, std::optional<int> culprit) const {
  ErrorInfo info;
  info.operation = operation;
  info.group = name();
  info.sequence = sequence;
  info.rank = rank();
  info.world_rank = in_world(rank());
  if (!culprit || *culprit < 0) return info;
  info.culprit = culprit;
  info.world_culprit = in_world(*culprit);
  info.host = host_name(*culprit);
  return info;
}

}  // namespace unisono::group
