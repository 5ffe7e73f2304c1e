#include "group/fork_guard.h"

#include <pthread.h>

#include <atomic>

namespace unisono::group {
namespace {

std::atomic<int> active_contexts{0};
std::atomic<bool> forked_child{false};

}  // namespace

bool in_forked_child() noexcept { return forked_child.load(std::memory_order_relaxed); }

void guard_against_fork(bool active) {
  static const int registered = ::pthread_atfork(nullptr, nullptr, [] {
    if (active_contexts.load() > 0) forked_child.store(true);
  });
  static_cast<void>(registered);
  active_contexts.fetch_add(active ? 1 : -1);
}

bool is_guarded_against_fork() noexcept { return active_contexts.load() > 0; }

}  // namespace unisono::group
