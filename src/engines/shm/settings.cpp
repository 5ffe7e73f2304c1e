#include "engines/shm/settings.h"

#include "engines/shm/private_memory.h"
#include "engines/shm/step_size.h"

namespace unisono::engines::shm {

void check_settings(const base::Environment& environment) {
  static_cast<void>(single_copy_range(environment, {}));
  static_cast<void>(asked_step_kib(environment));
}

}  // namespace unisono::engines::shm
