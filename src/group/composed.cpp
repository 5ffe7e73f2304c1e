#include "group/composed.h"

#include <utility>

#include "group/group.h"
#include "unisono/error.h"

namespace unisono::group {
namespace {

ErrorInfo info_of(std::string_view name, const ProcessGroup& group, int culprit, std::string hint) {
  const Group& inside = *group.implementation();
  return {.operation = std::string(name),
          .group = inside.name(),
          .sequence = inside.sequence(),
          .rank = inside.rank(),
          .culprit = culprit,
          .host = inside.host_name(culprit),
          .hint = std::move(hint)};
}

}  // namespace

Composed::Composed(std::string_view name, const ProcessGroup& group, const CallOptions& options)
    : name_(name), group_(group), options_(options), deadline_(options.timeout.value_or(group.implementation()->timeout())) {}

CallOptions Composed::options() {
  CallOptions next = options_;
  if (std::exchange(begun_, true)) next.timeout = deadline_.left();
  return next;
}

void Composed::throw_mismatch(int culprit, const std::string& difference) const {
  throw Mismatch("the ranks called different things: " + difference,
                 info_of(name_, group_, culprit, "every rank must make the same calls in the same order; nothing was moved, the group stays usable"));
}

void Composed::throw_invalid(int culprit, const std::string& what) const {
  throw InvalidArgument(what, info_of(name_, group_, culprit, "nothing was moved, the group stays usable"));
}

}  // namespace unisono::group
