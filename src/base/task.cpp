#include "unisono/task.h"

#include "unisono/failure.h"

namespace unisono {

Task::~Task() = default;
Waiter::~Waiter() = default;
GroupFailure::~GroupFailure() = default;

}  // namespace unisono
