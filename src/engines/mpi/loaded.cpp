#include "engines/mpi/loaded.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <mutex>
#include <string_view>

namespace unisono::engines::mpi {
namespace {

using Query = int(int*);

// Tools that watch a program's calls define the functions without the P. Those with it are MPI's alone.
constexpr const char* own_function = "PMPI_Initialized";

struct LoadedObject {
  std::string path, name;
};

/// Returns the name by which programs are linked to an object: its soname, or the name of its file where it has none.
// NOLINTBEGIN(performance-no-int-to-ptr): the dynamic linker gives addresses as numbers
std::string name_of(const dl_phdr_info& object) {
  const ElfW(Dyn)* entry = nullptr;
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    if (object.dlpi_phdr[i].p_type == PT_DYNAMIC) entry = reinterpret_cast<const ElfW(Dyn)*>(object.dlpi_addr + object.dlpi_phdr[i].p_vaddr);
  }
  ElfW(Addr) strings = 0;
  ElfW(Xword) soname = 0;
  for (; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_STRTAB) strings = entry->d_un.d_ptr;
    if (entry->d_tag == DT_SONAME) soname = entry->d_un.d_val;
  }
  if (soname != 0 && strings != 0) {
    if (strings < object.dlpi_addr) strings += object.dlpi_addr;  // the linker leaves it as it is in the file where it cannot write there
    return reinterpret_cast<const char*>(strings + soname);
  }
  const std::string_view path = object.dlpi_name;
  return std::string(path.substr(path.rfind('/') + 1));
}
// NOLINTEND(performance-no-int-to-ptr)

/// Returns the loaded objects whose names are like an MPI's.
std::vector<LoadedObject> candidates() {
  std::vector<LoadedObject> found;
  ::dl_iterate_phdr(
      [](dl_phdr_info* object, std::size_t, void* into) {
        if (object->dlpi_name == nullptr || *object->dlpi_name == '\0') return 0;  // the program itself
        std::string name = name_of(*object);
        if (name.starts_with("libmpi")) static_cast<std::vector<LoadedObject>*>(into)->push_back({object->dlpi_name, std::move(name)});
        return 0;
      },
      &found);
  return found;
}

Abi abi_of(std::string_view name, void* handle) {
  if (name.starts_with("libmpi_abi.so")) return Abi::standard;
  const bool is_openmpi = ::dlsym(handle, "ompi_mpi_comm_world") != nullptr;  // Open MPI 1 was a libmpi.so.12 too
  if (name == "libmpi.so.40" && is_openmpi) return Abi::openmpi;
  if ((name == "libmpi.so.12" || name == "libmpich.so.12") && !is_openmpi) return Abi::mpich;
  return Abi::unknown;
}

/// Returns the object in memory that a function belongs to; null for no function.
const link_map* object_of(const void* function) {
  Dl_info info{};
  link_map* object = nullptr;
  if (function == nullptr || ::dladdr1(function, &info, reinterpret_cast<void**>(&object), RTLD_DL_LINKMAP) == 0) return nullptr;
  return object;
}

std::string path_of(const link_map& object) {
  if (*object.l_name != '\0') return object.l_name;
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored).string();
}

/// Returns an object with its functions. `name`: by which programs are linked to it; empty: it does not tell what it is.
LoadedMpi describe(const link_map& object, std::string_view name, void* handle) {
  return {.abi = abi_of(name, handle),
          .path = path_of(object),
          .handle = {handle, [](void* of_dlopen) { ::dlclose(of_dlopen); }},
          .object = &object,
          .initialized = reinterpret_cast<Query*>(::dlsym(handle, own_function)),
          .finalized = reinterpret_cast<Query*>(::dlsym(handle, "PMPI_Finalized"))};
}

/// Returns the object whose functions of MPI are global now; null: there is none.
const link_map* global_object() { return object_of(::dlsym(RTLD_DEFAULT, own_function)); }

bool says(Query* query) {
  int answer = 0;
  return query != nullptr && query(&answer) == 0 && answer != 0;
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
  std::vector<LoadedMpi> all;
};

}  // namespace

bool LoadedMpi::is_initialized() const { return says(initialized) && !says(finalized); }

std::vector<LoadedMpi> loaded_mpis() {
  std::vector<LoadedMpi> found;
  const auto add = [&found](const std::string& path, std::string_view name) {
    void* const handle = ::dlopen(path.empty() ? nullptr : path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (handle == nullptr) return;  // unloaded meanwhile
    const link_map* const defining = object_of(::dlsym(handle, own_function));
    if (defining != nullptr && defining->l_name == path && std::ranges::find(found, defining, &LoadedMpi::object) == found.end())
      found.push_back(describe(*defining, name, handle));
    else ::dlclose(handle);
  };
  for (const LoadedObject& object : candidates()) add(object.path, object.name);
  // One under another name, or within the program itself.
  if (const link_map* const other = global_object(); other != nullptr) add(other->l_name, "");
  std::ranges::stable_partition(found, &LoadedMpi::is_initialized);
  return found;
}

std::string bound_instead_of(const LoadedMpi& mpi) {
  const link_map* const bound = global_object();
  return bound == nullptr || bound == mpi.object ? std::string() : path_of(*bound);
}

bool is_in_use() {
  static auto& mpis = *new LoadedMpis;  // never destroyed: static objects may end after it
  const unsigned long long loaded = libraries_loaded();
  const bool is_new = mpis.looked_at.load(std::memory_order_acquire) != loaded;
  if (!is_new && !mpis.any) return false;
  // The dynamic linker is called without the lock: it may call constructors that look for a job, with a lock of its own.
  std::vector<LoadedMpi> found;
  if (is_new) found = loaded_mpis();
  const std::lock_guard lock(mpis.mutex);
  if (is_new) {
    mpis.all.swap(found);
    mpis.any = !mpis.all.empty();
    mpis.looked_at.store(loaded, std::memory_order_release);
  }
  return std::ranges::any_of(mpis.all, &LoadedMpi::is_initialized);
}

}  // namespace unisono::engines::mpi
