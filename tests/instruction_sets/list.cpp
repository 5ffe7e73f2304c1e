// The instruction sets that our kernels have code for and this machine has, best first, a line each; with --chosen the one that is used.
#include <hwy/targets.h>

#include <cstdint>
#include <cstdio>
#include <string_view>

#include "kernels/reduce.h"

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--chosen") {
    std::puts(unisono::kernels::target_name().c_str());
    return 0;
  }
  if (argc != 1) return 2;
  for (int bit = 0; bit < 63; ++bit) {
    const std::int64_t target = std::int64_t{1} << bit;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(target);
    const bool has_code = unisono::kernels::target_name() == hwy::TargetName(target);
    hwy::SetSupportedTargetsForTest(0);
    if (has_code && (hwy::SupportedTargets() & target) != 0) std::puts(hwy::TargetName(target));
  }
}
