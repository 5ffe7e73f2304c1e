#pragma once

// Calls of the system that fail, one of them, counted: linked into a test program in front of libc, or preloaded into one that is started. What is
// linked is armed by arm(); what is started by the variable FAILING_CALL, "accept4:3:24": the third accept4 fails with errno 24 (with ":5" behind it,
// also the five after that). Where FAILING_CALL_RANK is set, only in the process whose RANK is that ("-": that has none). A file FAILING_CALL_MARK is
// made when it has failed. With FAILING_CALL_WAITS the calls are counted from failing_calls_begin() on, which a program finds by dlsym.
namespace unisono::testing {

/// Not an errno: a call that moves bytes moves one of them.
inline constexpr int cut_short = -1;
/// Not an errno: the process ends by SIGKILL in the place of the call.
inline constexpr int killed = -2;
/// Not an errno: the process stops before the call, which is made when it is continued.
inline constexpr int stopped = -3;

/// From now on the calls are counted anew, and the `nth` of that name (from 1), and as many `more` after it, fail with `error`. 0: none does.
void arm(const char* call, int nth, int error, int more = 0);
/// The number of its calls since, in this process.
int calls_of(const char* call);
/// It has failed since it was armed.
bool has_struck();

}  // namespace unisono::testing
