#include "group/calls/composed.h"

#include <utility>

#include "engines/decision.h"
#include "group/group.h"
#include "unisono/detail/ending.h"
#include "unisono/error.h"

namespace unisono::group {
namespace {

ErrorInfo info_of(std::string_view name, const ProcessGroup& group, const CallOptions& options, std::optional<int> culprit, std::string hint) {
  const Group& inside = *group.implementation();
  ErrorInfo info = inside.facts().error_info(name, inside.facts().sequence(), culprit);
  info.hint = std::move(hint);
  info.where = options.where;
  return info;
}

}  // namespace

Composed::Composed(std::string_view name, const ProcessGroup& group, const CallOptions& options)
    : name_(name), group_(group), options_(options), deadline_(options.timeout.value_or(group.implementation()->facts().timeout())) {}

CallOptions Composed::options() {
  CallOptions next = options_;
  if (std::exchange(begun_, true)) next.timeout = deadline_.left();
  return next;
}

void Composed::throw_mismatch(const Difference& found, const std::string& text) const {
  const Mismatch mismatch(engines::describe(engines::Decision{.calls = text}, found.own_is_blamed),
                          info_of(name_, group_, options_, found.culprit, engines::mismatch_hint));
  Group& inside = *group_.implementation();
  inside.errors().note_mismatch(mismatch, inside.size(), inside.facts().sequence());
  throw mismatch;
}

void Composed::throw_invalid(int culprit, const std::string& what) const {
  const InvalidArgument wrong(what, info_of(name_, group_, options_, culprit, "nothing was moved, the group stays usable"));
  Group& inside = *group_.implementation();
  inside.errors().note_error_of_all(wrong, culprit, inside.size(), inside.facts().sequence());
  throw wrong;
}

}  // namespace unisono::group

namespace unisono {

void detail::note_error_of_all(const ProcessGroup& group, const Error& error, int culprit) {
  group::Group& inside = *group.implementation();
  inside.errors().note_error_of_all(error, culprit, inside.size(), inside.facts().sequence());
}

}  // namespace unisono
