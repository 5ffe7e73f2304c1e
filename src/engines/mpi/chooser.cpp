// The plug-in "mpi" as the registry finds it. It is linked to no MPI: it determines which one this process uses, and loads the part that was built
// for its ABI. An MPI that the program has loaded is the one that is used, or none is.
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "engines/mpi/kinds.h"
#include "engines/mpi/launched.h"
#include "engines/mpi/loaded.h"
#include "unisono/engine.h"
#include "unisono/error.h"

namespace unisono::engines::mpi {
namespace {

/// Returns the file of our part for a kind, which lies beside this one.
std::filesystem::path part_for(const Kind& kind) {
  Dl_info info{};
  ::dladdr(reinterpret_cast<const void*>(&part_for), &info);
  return std::filesystem::path(info.dli_fname).parent_path() / fmt::format("libunisono_mpi.{}.so", kind.name);
}

bool is_built(const Kind& kind) {
  std::error_code error;
  return std::filesystem::exists(part_for(kind), error);
}

/// The part that this process can use, or why there is none.
struct Choice {
  const Kind* kind = nullptr;
  std::optional<LoadedMpi> loaded = {};  ///< the program's own; nothing: one is still to be opened
  std::string why_not = {};
};

const Kind* launching_kind() {
  const Kind* launcher = nullptr;
  for (const Kind& kind : kinds) {
    if (started_by(kind.name) && (launcher == nullptr || !is_built(*launcher))) launcher = &kind;
  }
  return launcher;
}

/// Chooses where the program has loaded an MPI, which is used or left alone: another one is never opened beside it.
Choice choose_loaded(LoadedMpi loaded) {
  const std::string has_loaded = "the program has loaded " + describe(loaded);
  const Kind* const kind = find_kind(loaded.abi);
  if (kind == nullptr) return {.why_not = has_loaded + ", for which this plug-in has no part"};
  if (!is_built(*kind)) return {.why_not = fmt::format("{}, for which there is no part: {} is missing", has_loaded, part_for(*kind).string())};
  if (const std::string other = bound_instead_of(loaded); !other.empty())
    return {.why_not = fmt::format("{} and {}: two MPIs, whose functions have the same names", has_loaded, other)};
  return {.kind = kind, .loaded = std::move(loaded)};
}

/// Chooses where the program has loaded none: by UNISONO_MPI, by the launcher, or the first part that there is.
Choice choose_unloaded(const Kind* wanted, const Kind* launcher) {
  const Kind* chosen = wanted != nullptr ? wanted : launcher;
  if (chosen == nullptr) {
    const auto built = std::ranges::find_if(kinds, is_built);
    if (built == kinds.end()) return {.why_not = "this build was made without Open MPI and without MPICH"};
    return {.kind = &*built};
  }
  if (!is_built(*chosen)) return {.why_not = fmt::format("there is no part for {}: {} is missing", chosen->readable, part_for(*chosen).string())};
  return {.kind = chosen};
}

// Nothing is loaded here: an MPI that is only loaded changes the process already.
Choice choose() {
  const char* const variable = std::getenv("UNISONO_MPI");
  const std::string_view asked = variable != nullptr ? variable : "";
  const Kind* const wanted = find_kind(asked);
  if (!asked.empty() && wanted == nullptr) return {.why_not = fmt::format("UNISONO_MPI is \"{}\"; it is openmpi or mpich", asked)};
  const Kind* const launcher = launching_kind();
  std::vector<LoadedMpi> loaded = loaded_mpis();
  Choice choice = loaded.empty() ? choose_unloaded(wanted, launcher) : choose_loaded(std::move(loaded.front()));
  if (choice.kind == nullptr) return choice;
  const std::string source =
      choice.loaded ? "the program has loaded " + describe(*choice.loaded) : fmt::format("UNISONO_MPI asks for {}", choice.kind->readable);
  const auto contradiction = [&](std::string_view who, const Kind& other) {
    return Choice{.why_not = fmt::format("{}, but {} {}: an MPI of the other kind", source, who, other.readable)};
  };
  if (wanted != nullptr && wanted != choice.kind) return contradiction("UNISONO_MPI asks for", *wanted);
  if (launcher != nullptr && !started_by(choice.kind->name)) return contradiction("the ranks were started by the launcher of", *launcher);
  return choice;
}

struct Loaded {
  const Plugin* plugin = nullptr;
  std::string why_not;
};

Loaded load_chosen(const Choice& choice) {
  if (choice.kind == nullptr) return {nullptr, choice.why_not};
  const std::string part = part_for(*choice.kind).string();
  if (choice.loaded) {
    // Our part finds MPI's functions among the global ones. The handle stays open, as the part does.
    if (::dlopen(choice.loaded->path.c_str(), RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD) == nullptr)
      return {nullptr, fmt::format("{} cannot be shared with the program: {}", describe(*choice.loaded), ::dlerror())};
  } else if (const std::string why_not = open_system(*choice.kind); !why_not.empty()) {
    return {nullptr, why_not};
  }
  void* const handle = ::dlopen(part.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return {nullptr, fmt::format("the part for {} cannot be loaded: {}", choice.kind->readable, ::dlerror())};
  using Entry = const Plugin*();
  auto* const entry = reinterpret_cast<Entry*>(::dlsym(handle, "unisono_mpi_plugin"));
  if (entry == nullptr) return {nullptr, fmt::format("{} is not a part of this plug-in", part)};
  const Plugin* const plugin = entry();
  if (plugin->abi != plugin_abi) return {nullptr, fmt::format("{} is of another version of unisono", part)};
  return {plugin, {}};
}

/// Loads the part that is chosen first, to which this process keeps.
Loaded load() {
  static std::mutex mutex;
  static const Plugin* loaded = nullptr;
  const std::lock_guard lock(mutex);
  if (loaded != nullptr) return {loaded, {}};
  Loaded part = load_chosen(choose());
  loaded = part.plugin;
  return part;
}

EngineTraits traits() {
  return {.device = Device::Type::cpu, .spans_hosts = true, .why_not = [] { return choose().why_not; }};
}

std::unique_ptr<Engine> make(const EngineOptions& options) {
  const Loaded part = load();
  if (part.plugin == nullptr) throw BackendUnavailable("backend mpi cannot be used: " + part.why_not);
  return part.plugin->make(options);
}

/// Joins the job that an MPI's launcher has started: for ranks that nothing else brings together, whichever backend they use then.
std::optional<Bootstrap> join_launched() {
  if (std::ranges::none_of(kinds, [](const Kind& kind) { return started_by(kind.name); })) return std::nullopt;
  const Loaded part = load();
  if (part.plugin == nullptr) {
    throw BackendUnavailable("the ranks, which an MPI's launcher has started, cannot meet through MPI: " + part.why_not,
                             {.hint = "set MASTER_ADDR and MASTER_PORT on all ranks, with which they meet without MPI"});
  }
  return part.plugin->bootstrap(true);
}

std::optional<Bootstrap> bootstrap(bool join) {
  if (join) return join_launched();
  const std::vector<LoadedMpi> loaded = loaded_mpis();
  if (loaded.empty() || !loaded.front().is_initialized()) return std::nullopt;
  const Loaded part = load();
  return part.plugin != nullptr ? part.plugin->bootstrap(false) : std::nullopt;
}

}  // namespace
}  // namespace unisono::engines::mpi

UNISONO_PLUGIN {
  using namespace unisono;
  static const Plugin plugin{plugin_abi,
                             "mpi",
                             "Open MPI or MPICH, whichever the program or its launcher uses",
                             engines::mpi::traits,
                             engines::mpi::make,
                             engines::mpi::bootstrap};
  return &plugin;
}
