#include "engines/mpi/kinds.h"

#include <dlfcn.h>

#include <algorithm>
#include <vector>

#include <fmt/format.h>

namespace unisono::engines::mpi {

const Kind* find_kind(std::string_view name) {
  const auto found = std::ranges::find(kinds, name, &Kind::name);
  return found == kinds.end() ? nullptr : &*found;
}

const Kind* find_kind(Abi abi) {
  const auto found = std::ranges::find(kinds, abi, &Kind::abi);
  return found == kinds.end() ? nullptr : &*found;
}

std::string describe(const LoadedMpi& mpi) {
  const Kind* const kind = find_kind(mpi.abi);
  const std::string_view abi = kind != nullptr ? kind->readable : mpi.abi == Abi::standard ? "the standard ABI" : "of an unknown kind";
  return fmt::format("{} ({})", mpi.path, abi);
}

std::string open_system(const Kind& kind) {
  std::string why_not;
  for (const char* const name : kind.libraries) {
    if (name == nullptr) continue;
    // Open MPI's components, which it loads later, need its symbols to be global, and so does our part.
    if (void* const handle = ::dlopen(name, RTLD_NOW | RTLD_GLOBAL)) {
      const std::vector<LoadedMpi> loaded = loaded_mpis();
      if (!loaded.empty() && loaded.front().abi == kind.abi) return {};
      ::dlclose(handle);
      why_not = fmt::format("{} cannot be used: {} is another MPI", kind.readable, loaded.empty() ? name : describe(loaded.front()));
      continue;
    }
    if (why_not.empty()) why_not = fmt::format("{} cannot be loaded: {}", kind.readable, ::dlerror());
  }
  return why_not;
}

}  // namespace unisono::engines::mpi
