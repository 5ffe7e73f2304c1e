#include "context/commitment.h"

#include <string>
#include <string_view>

#include "unisono/error.h"

namespace unisono::context {
namespace {

constexpr std::string_view decision_key = "decision", ready_key = "ready", formed = "formed", given_up = "given up";

}  // namespace

void commit(Formation& formation, int size, const base::Deadline& deadline,
            const std::function<std::exception_ptr(const std::exception_ptr&)>& explain) {
  Store& store = *formation.store();
  std::string decision;
  try {
    if (store.add(ready_key, 1) == size) store.compare_set(decision_key, "", formed);
    decision = formation.watched()->get(decision_key, deadline.left());
  } catch (...) {
    const std::exception_ptr error = explain(std::current_exception());
    formation.give_up(error);  // first, so that the reason is there when the others read the decision
    // The decision may have been made meanwhile. Then all have the group, and its next call meets the failure.
    if (store.compare_set(decision_key, "", given_up) == formed) return;
    std::rethrow_exception(error);
  }
  if (decision == formed) return;
  static_cast<void>(formation.watched()->try_get(decision_key));  // which throws the reason that the other one has given
  throw PeerFailed("another member could not form the group");
}

}  // namespace unisono::context
