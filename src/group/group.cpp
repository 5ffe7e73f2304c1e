#include "group/group.h"

#include <exception>
#include <utility>

namespace unisono::group {
namespace {

GroupParts clamped(GroupParts parts) {
  parts.timeout = base::clamped(parts.timeout);
  return parts;
}

}  // namespace

Group::Group(GroupParts parts)
    : parts_(clamped(std::move(parts))),
      facts_(parts_),
      errors_(parts_, facts_, [this] { return std::shared_ptr<GroupErrors>(shared_from_this(), &errors_); }),
      devices_(facts_, core()),
      calls_(parts_, facts_, errors_),
      collectives_(calls_, devices_),
      messages_(calls_, devices_),
      seals_(coordination(), core().executor().name()),
      exceptions_(std::uncaught_exceptions()) {}

Group::~Group() {
  // The ranks that still wait for this one learn that it will not come.
  using enum coordination::Leaving;
  if (!in_forked_child()) drop(std::uncaught_exceptions() > exceptions_ ? by_exception : let_go);
}

}  // namespace unisono::group
