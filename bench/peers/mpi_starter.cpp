// Measures an MPI, whose launcher starts the ranks: the system's Open MPI or MPICH, or any that lies in a file. It is loaded at run time, and then
// the part that was compiled for its ABI.

#include <dlfcn.h>

#include <filesystem>
#include <sstream>
#include <stdexcept>

#include <fmt/format.h>

#include "engines/mpi/kinds.h"
#include "peers/mpi_part.h"

namespace unisono::bench {
namespace {

namespace mpi = engines::mpi;

/// Loads an MPI for the rest of the process. `what`: the path of its file, or the name of a kind.
mpi::LoadedMpi load(const std::string& what) {
  if (const mpi::Kind* const kind = mpi::find_kind(what)) {
    if (const std::string why_not = mpi::open_system(*kind); !why_not.empty()) throw std::runtime_error(why_not);
  } else if (::dlopen(what.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    throw std::runtime_error(fmt::format("the MPI cannot be loaded: {}", ::dlerror()));
  }
  std::vector<mpi::LoadedMpi> loaded = mpi::loaded_mpis();
  if (loaded.empty()) throw std::runtime_error(what + " has no functions of MPI");
  return loaded.front();
}

/// Returns the part for an MPI, loaded for the rest of the process.
const MpiPart& part_for(const mpi::LoadedMpi& loaded) {
  const mpi::Kind* const kind = mpi::find_kind(loaded.abi);
  if (kind == nullptr && loaded.abi != mpi::Abi::standard) throw std::runtime_error(describe(loaded) + " cannot be measured");
  const std::filesystem::path file = std::filesystem::read_symlink("/proc/self/exe").parent_path() /
                                     fmt::format("unisono-bench-mpi.{}.so", kind != nullptr ? kind->name : "standard");
  std::error_code error;
  if (!std::filesystem::exists(file, error))
    throw std::runtime_error(fmt::format("this build of unisono cannot measure {}: {} is missing", describe(loaded), file.string()));
  void* const handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) throw std::runtime_error(fmt::format("the part for {} cannot be loaded: {}", describe(loaded), ::dlerror()));
  using Entry = const MpiPart*();
  auto* const entry = reinterpret_cast<Entry*>(::dlsym(handle, mpi_part_entry));
  if (entry == nullptr) throw std::runtime_error(file.string() + " is no part of the bench");
  return *entry();
}

const MpiPart* part = nullptr;  ///< of this process

const MpiPart& part_of(const std::string& what) {
  if (part == nullptr) part = &part_for(load(what));
  return *part;
}

}  // namespace

Place join_processes(const Plan& plan) { return part_of(plan.mpi.library.empty() ? plan.mpi.name : plan.mpi.library).join(); }

void add_starter(Candidates& candidates, const Plan& plan, Place place) {
  if (plan.asks_for(plan.mpi.name)) candidates.push_back(part->candidate(plan.mpi.name, place));
}

void leave_processes() { part->leave(); }

std::vector<PeerVersion> starters(const std::string& mpi) {
  const std::string all = part_of(mpi).version();
  std::istringstream line(all.substr(0, all.find_first_of(",\n")));
  std::string version;
  for (std::string word; line >> word;) version += (version.empty() ? "" : " ") + word;
  return {{.name = mpi, .version = version}};
}

}  // namespace unisono::bench
