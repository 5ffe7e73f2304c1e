// The instruction sets that our kernels have code for and this machine has, best first, a line each; with --chosen the one that is used.
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "kernels/dispatch.h"
#include "kernels/vector.h"

int main(int argc, char** argv) {
  namespace kernels = unisono::kernels;
  if (argc == 2 && std::string_view(argv[1]) == "--chosen") {
    std::puts(kernels::target_name().c_str());
    return 0;
  }
  if (argc != 1) return 2;
  const std::int64_t usable = kernels::usable_targets();
  for (int bit = 0; bit < 63; ++bit) {
    const std::int64_t target = std::int64_t{1} << bit;
    if ((usable & target) == 0) continue;
    kernels::use_targets(target);
    const std::string name = kernels::target_name();
    if (name == hwy::TargetName(target)) std::puts(name.c_str());
  }
}
