// The plug-in "mpi" as the registry finds it. It is linked to no MPI: it determines which one this process uses, and loads the part that was built
// for it.
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "engines/mpi/launched.h"
#include "unisono/engine.h"
#include "unisono/error.h"

namespace unisono::engines::mpi {
namespace {

struct Kind {
  std::string_view name;
  std::string_view readable;
  std::array<const char*, 2> libraries;  ///< the names that programs are linked to; our part needs the first
};
constexpr std::array kinds = {
    Kind{"openmpi", "Open MPI", {openmpi_library, nullptr}},
    Kind{"mpich", "MPICH", {mpich_library, mpich_other_library}},
};

const Kind* find(std::string_view name) {
  for (const Kind& kind : kinds) {
    if (kind.name == name) return &kind;
  }
  return nullptr;
}

bool is_loaded(const Kind& kind) {
  for (const char* const name : kind.libraries) {
    if (name == nullptr) continue;
    if (void* const handle = ::dlopen(name, RTLD_LAZY | RTLD_NOLOAD)) {
      ::dlclose(handle);
      return true;
    }
  }
  return false;
}

const Kind* loaded() {
  for (const Kind& kind : kinds) {
    if (is_loaded(kind)) return &kind;
  }
  return nullptr;
}

/// Returns the file of our part for a kind, which lies beside this one.
std::filesystem::path part_for(const Kind& kind) {
  Dl_info info{};
  ::dladdr(reinterpret_cast<const void*>(&loaded), &info);
  return std::filesystem::path(info.dli_fname).parent_path() / fmt::format("libunisono_mpi.{}.so", kind.name);
}

bool is_built(const Kind& kind) {
  std::error_code error;
  return std::filesystem::exists(part_for(kind), error);
}

struct Choice {
  const Kind* kind = nullptr;
  std::string why_not;
};

Choice choose() {
  const char* const variable = std::getenv("UNISONO_MPI");
  const std::string_view asked = variable != nullptr ? variable : "";
  const Kind* const wanted = find(asked);
  if (!asked.empty() && wanted == nullptr) return {nullptr, fmt::format("UNISONO_MPI is \"{}\"; it is openmpi or mpich", asked)};
  const Kind* launcher = nullptr;
  for (const Kind& kind : kinds) {
    if (started_by(kind.name) && (launcher == nullptr || !is_built(*launcher))) launcher = &kind;
  }
  // An MPI that the program has loaded is used in any case.
  const Kind* const present = loaded();
  const Kind* const chosen = present != nullptr ? present : wanted != nullptr ? wanted : launcher;
  if (chosen == nullptr) {
    for (const Kind& kind : kinds) {
      if (is_built(kind)) return {&kind, {}};
    }
    return {nullptr, "this build was made without Open MPI and without MPICH"};
  }
  const std::string_view source = present != nullptr ? "the program is linked to" : "UNISONO_MPI asks for";
  const auto contradiction = [&](std::string_view who, const Kind& other) {
    return Choice{nullptr, fmt::format("{} {}, but {} {}: an MPI of the other kind", source, chosen->readable, who, other.readable)};
  };
  if (wanted != nullptr && wanted != chosen) return contradiction("UNISONO_MPI asks for", *wanted);
  if (launcher != nullptr && !started_by(chosen->name)) return contradiction("the ranks were started by the launcher of", *launcher);
  return {chosen, {}};
}

struct Loaded {
  const Plugin* plugin = nullptr;
  std::string why_not;
};

Loaded load() {
  const Choice choice = choose();
  if (choice.kind == nullptr) return {nullptr, choice.why_not};
  if (!is_built(*choice.kind))
    return {nullptr, fmt::format("there is no part for {}: {} is missing", choice.kind->readable, part_for(*choice.kind).string())};
  // Open MPI's components, which it loads later, need its symbols to be global.
  if (::dlopen(choice.kind->libraries[0], RTLD_NOW | RTLD_GLOBAL) == nullptr)
    return {nullptr, fmt::format("{} cannot be loaded: {}", choice.kind->readable, ::dlerror())};
  void* const handle = ::dlopen(part_for(*choice.kind).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return {nullptr, fmt::format("the part for {} cannot be loaded: {}", choice.kind->readable, ::dlerror())};
  using Entry = const Plugin*();
  auto* const entry = reinterpret_cast<Entry*>(::dlsym(handle, "unisono_mpi_plugin"));
  if (entry == nullptr) return {nullptr, fmt::format("{} is no part of this plug-in", part_for(*choice.kind).string())};
  const Plugin* const plugin = entry();
  if (plugin->abi != plugin_abi) return {nullptr, fmt::format("{} is of another version of unisono", part_for(*choice.kind).string())};
  return {plugin, {}};
}

const Plugin& need() {
  const Loaded part = load();
  if (part.plugin == nullptr) throw BackendUnavailable("backend mpi cannot be used: " + part.why_not);
  return *part.plugin;
}

// Nothing is loaded here: an MPI that is only loaded changes the process already.
std::string why_not() {
  const Choice choice = choose();
  if (choice.kind == nullptr) return choice.why_not;
  if (!is_built(*choice.kind)) return fmt::format("there is no part for {}: {} is missing", choice.kind->readable, part_for(*choice.kind).string());
  return {};
}

EngineTraits traits() { return {.device = Device::Type::cpu, .spans_hosts = true, .why_not = why_not}; }

std::unique_ptr<Engine> make(const EngineOptions& options) { return need().make(options); }

std::optional<Bootstrap> bootstrap(bool join) {
  const bool started = std::ranges::any_of(kinds, [](const Kind& kind) { return started_by(kind.name); });
  if (join ? !started : loaded() == nullptr) return std::nullopt;
  if (!join && load().plugin == nullptr) return std::nullopt;
  return need().bootstrap(join);
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
