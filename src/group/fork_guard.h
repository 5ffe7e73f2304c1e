#pragma once

#include <pthread.h>

#include <atomic>

namespace unisono::group {

inline std::atomic<int> contexts_of_process{0};
inline std::atomic<bool> is_forked_child{false};

/// Returns true in a child of fork, where nothing works; checked by every call.
inline bool in_forked_child() noexcept { return is_forked_child.load(std::memory_order_relaxed); }
/// Counts the contexts of this process: with true when one is made, with false when it ends. While there is one, a fork makes a child in which
/// nothing works.
inline void guard_against_fork(bool active) {
  static const int registered = ::pthread_atfork(nullptr, nullptr, [] {
    if (contexts_of_process.load() > 0) is_forked_child.store(true);
  });
  static_cast<void>(registered);
  contexts_of_process.fetch_add(active ? 1 : -1);
}
/// Returns true where a fork now would make such a child: there is a context in this process, be it of a thread.
inline bool is_guarded_against_fork() noexcept { return contexts_of_process.load() > 0; }

}  // namespace unisono::group
