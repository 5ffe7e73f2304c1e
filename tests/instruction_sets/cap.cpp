// Preloaded (LD_PRELOAD), it keeps our kernels from every instruction set above the one that TEST_INSTRUCTION_SET names. What Highway chooses is
// decided in libhwy, which the whole process shares, so this caps the library, the component torch and the Python package alike.
#include <hwy/targets.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace {

[[gnu::constructor]] void cap() {
  const char* const name = std::getenv("TEST_INSTRUCTION_SET");
  if (name == nullptr) return;
  // A better target has a lower bit.
  for (int bit = 0; bit < 63; ++bit) {
    const std::int64_t target = std::int64_t{1} << bit;
    if (std::string_view(hwy::TargetName(target)) != name) continue;
    hwy::DisableTargets(target - 1);
    return;
  }
  std::fprintf(stderr, "TEST_INSTRUCTION_SET: Highway knows no %s\n", name);
  std::_Exit(2);
}

}  // namespace
