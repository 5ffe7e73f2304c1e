#include "unisono/membership.h"

#include <exception>
#include <mutex>
#include <utility>

#include "context/world.h"
#include "base/environment.h"
#include "rendezvous/rendezvous.h"
#include "unisono/error.h"

namespace unisono {

struct Membership::State {
  std::mutex mutex;
  std::unique_ptr<context::State> joined;  // null once the group was left
};

Membership::Membership(const MembershipOptions& options) : state_(std::make_unique<State>()), exceptions_(std::uncaught_exceptions()) {
  if (!options.store) throw InvalidArgument("there is no store for the members to meet in", {.operation = "Membership"});
  state_->joined = context::join(
      {.backend = options.backend, .rank = options.rank, .world_size = options.size, .timeout = options.timeout, .store = options.store},
      {.name = options.name, .are_job = false, .library = options.library});
  // The store may end with the first member that leaves. No member may leave before the others have read what they need.
  state_->joined->world->implementation()->collectives().assemble(rendezvous::join_timeout(options.timeout, base::Environment::process()));
  group::guard_against_fork(true);
}

Membership::~Membership() {
  try {
    end(std::uncaught_exceptions() > exceptions_ ? How::abandon : How::leave, {});
  } catch (...) {  // NOLINT(bugprone-empty-catch): a destructor has nobody to tell; the peers notice a rank that left without a goodbye
  }
}

const ProcessGroup& Membership::group() const {
  const std::lock_guard lock(state_->mutex);
  if (!state_->joined) throw NotInitialized("the group was left");
  return *state_->joined->world;
}

void Membership::leave() { end(How::leave, {}); }
void Membership::leave_at_exit() { end(How::leave_at_exit, {}); }
void Membership::abandon(std::string_view how) { end(How::abandon, how); }

void Membership::end(How how, std::string_view why) {
  std::unique_ptr<context::State> joined;
  {
    const std::lock_guard lock(state_->mutex);
    joined = std::exchange(state_->joined, nullptr);
  }
  if (!joined) return;
  group::guard_against_fork(false);
  if (group::in_forked_child()) {  // the job belongs to the parent process
    static_cast<void>(joined.release());
    return;
  }
  if (!why.empty()) joined->world->implementation()->errors().end(why);
  using enum coordination::Leaving;
  if (how == How::abandon) context::abandon(*joined, std::uncaught_exceptions() > exceptions_ ? by_exception : in_order);
  else context::leave(*joined, how == How::leave ? in_order : at_exit);
}

}  // namespace unisono
