#pragma once

#include <cstdint>

namespace unisono::coordination {

/// The way in which a rank leaves a group. The ranks that still wait for it are told.
enum class Leaving : std::uint8_t {
  in_order,      ///< by finalize
  by_exception,  ///< an exception left the scope of the group
  let_go,        ///< the last handle of the group is gone: deleted, or the process is about to end
  at_exit,       ///< the program has come to its end without finalize: its exit code is known soon
};
inline constexpr Leaving last_leaving = Leaving::at_exit;

/// The end of the process of a rank that has left like this tells more: it is waited for, for a while.
constexpr bool may_be_an_end(Leaving how) { return how == Leaving::let_go || how == Leaving::at_exit; }

}  // namespace unisono::coordination
