#include "context/foreign.h"

#include <link.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

#include "engines/mpi/loaded.h"
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

struct LoadedMpis {
  std::atomic<unsigned long long> looked_at{0};
  std::atomic<bool> any{false};
  std::mutex mutex;
  std::vector<engines::mpi::LoadedMpi> all;
};

/// Tells whether the program has loaded and initialized an MPI. It is looked for whenever a library has been loaded since the last look.
bool mpi_is_initialized() {
  static auto& mpis = *new LoadedMpis;  // never destroyed: static objects may end after it
  const unsigned long long loaded = libraries_loaded();
  const bool is_new = mpis.looked_at.load(std::memory_order_acquire) != loaded;
  if (!is_new && !mpis.any) return false;
  // The dynamic linker is called without the lock: it may call constructors that look for a job, with a lock of its own.
  std::vector<engines::mpi::LoadedMpi> found;
  if (is_new) found = engines::mpi::loaded_mpis();
  const std::lock_guard lock(mpis.mutex);
  if (is_new) {
    mpis.all.swap(found);
    mpis.any = !mpis.all.empty();
    mpis.looked_at.store(loaded, std::memory_order_release);
  }
  return std::ranges::any_of(mpis.all, &engines::mpi::LoadedMpi::is_initialized);
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
