#pragma once

#include <cstdint>

#include "unisono/export.h"

namespace unisono::detail {

/// Gives the calling thread the floating-point environment in which a process starts: it rounds to
/// nearest, denormal numbers are numbers, and nothing traps. The destructor brings the thread's own
/// back.
///
/// Ranks get the same bits from the same data only if all compute in one environment, whichever
/// thread does.
class UNISONO_API FixedFloatingPoint {
 public:
  FixedFloatingPoint() noexcept;
  ~FixedFloatingPoint();
  FixedFloatingPoint(const FixedFloatingPoint&) = delete;
  FixedFloatingPoint& operator=(const FixedFloatingPoint&) = delete;

 private:
  std::uint64_t own_;          ///< of the thread
  std::uint16_t own_x87_ = 0;  ///< of long double, where the processor has another unit for it
};

}  // namespace unisono::detail
