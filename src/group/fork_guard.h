#pragma once

namespace unisono::group {

/// Returns true in a child of fork, where nothing works; checked by every call.
bool in_forked_child() noexcept;
/// Counts the contexts of this process: with true when one is made, with false when it ends. While there is one, a fork makes a child in which
/// nothing works.
void guard_against_fork(bool active);
/// Returns true where a fork now would make such a child: there is a context in this process, be it of a thread.
bool is_guarded_against_fork() noexcept;

}  // namespace unisono::group
