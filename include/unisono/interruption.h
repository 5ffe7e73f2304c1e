#pragma once

#include "unisono/export.h"

// For bindings to languages whose signal handlers do not run while a call of the library waits.

namespace unisono {

/// Called by every thread of the process that waits within a call, some ten times a second, once it
/// sleeps and never before. Returns, or throws an exception that ends the call. A blocking operation of
/// a group is then half done, and ends the group for all ranks (PeerFailed with the exception's text).
/// An asynchronous one goes on, and only the wait for it ends. One that must not throw in a thread
/// returns there. No lock is held.
using InterruptionCheck = void (*)();

/// From now on; null: none. Returns the one before.
UNISONO_API InterruptionCheck set_interruption_check(InterruptionCheck check) noexcept;

}  // namespace unisono
