#include "context/foreign.h"

#include <dlfcn.h>
#include <link.h>

#include <array>
#include <atomic>
#include <mutex>
#include <vector>

#include "engines/mpi/launched.h"
#include "engines/plugins.h"

namespace unisono {
namespace {

struct Probes {
  std::mutex mutex;
  std::vector<ContextProbe> all;
  std::atomic<bool> any{false};
};
Probes& probes() {
  static Probes& instance = *new Probes;  // never destroyed: static objects may end after it
  return instance;
}

}  // namespace

void register_context_probe(ContextProbe probe) {
  const std::lock_guard lock(probes().mutex);
  probes().all.push_back(std::move(probe));
  probes().any = true;
}

namespace context {
namespace {

std::optional<InitOptions> ask_probes() {
  if (!probes().any) return std::nullopt;
  std::vector<ContextProbe> all;
  {
    const std::lock_guard lock(probes().mutex);
    all = probes().all;
  }
  for (const auto& probe : all) {
    if (auto options = probe()) return options;
  }
  return std::nullopt;
}

/// Counts the libraries that this process has loaded so far.
unsigned long long libraries_loaded() {
  unsigned long long count = 0;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* into) {
        *static_cast<unsigned long long*>(into) = info->dlpi_adds;
        return 1;  // every entry holds the same count
      },
      &count);
  return count;
}

/// Tells whether the program has loaded and initialized an MPI. MPI is looked for by name whenever a library has been loaded since the last look.
bool mpi_is_initialized() {
  using Query = int(int*);
  static std::atomic<unsigned long long> looked_at{0};
  static std::atomic<Query*> query{nullptr};
  const unsigned long long loaded = libraries_loaded();
  if (query.load(std::memory_order_acquire) == nullptr && looked_at.exchange(loaded) != loaded) {
    for (const char* const name : engines::mpi::library_names) {
      // The handle stays open, which keeps the function valid.
      void* const library = ::dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
      if (library == nullptr) continue;
      query.store(reinterpret_cast<Query*>(::dlsym(library, "MPI_Initialized")), std::memory_order_release);
      break;
    }
  }
  Query* const ask = query.load(std::memory_order_acquire);
  int is_initialized = 0;
  return ask != nullptr && ask(&is_initialized) == 0 && is_initialized != 0;
}

}  // namespace

std::optional<InitOptions> foreign_job() {
  // A probe may itself call unisono; it is not asked again from inside.
  static thread_local bool looking = false;
  if (looking) return std::nullopt;
  struct Looking {
    Looking() { looking = true; }
    ~Looking() { looking = false; }
  } const guard;
  if (auto options = ask_probes()) return options;
  if (!mpi_is_initialized()) return std::nullopt;
  const auto joined = engines::bootstrap(false);
  if (!joined || joined->size == 1) return std::nullopt;
  InitOptions options;
  options.rank = joined->rank;
  options.world_size = joined->size;
  return options;
}

}  // namespace context
}  // namespace unisono
