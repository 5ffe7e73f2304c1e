#include "engines/nccl/loader.h"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <mutex>
#include <vector>

#include <fmt/format.h>

#include "base/code_file.h"
#include "unisono/error.h"

namespace unisono::engines::nccl {
namespace {

class SystemLibraries final : public Libraries {
 public:
  void* open(const std::string& name, bool present_only, std::string& why) override {
    // The libraries are never closed: both have threads of their own.
    void* handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | (present_only ? RTLD_NOLOAD : 0));
    if (handle == nullptr && !present_only) {
      const char* text = ::dlerror();
      why = text == nullptr ? name + " cannot be opened" : text;
    }
    return handle;
  }
  void* symbol(void* library, const char* name) override { return ::dlsym(library, name); }
};

// Opens one of the libraries; one that the program uses already comes before any other.
void* open_any(Libraries& libraries, const std::vector<std::string>& names, std::string& why) {
  for (const bool present_only : {true, false}) {
    for (const std::string& name : names) {
      std::string text;
      if (void* handle = libraries.open(name, present_only, text)) return handle;
      if (why.empty()) why = text;
    }
  }
  return nullptr;
}

std::vector<std::string> names_of(const std::string& chosen, std::initializer_list<const char*> usual) {
  if (!chosen.empty()) return {chosen};
  return {usual.begin(), usual.end()};
}

/// Collects what is missing.
class Finder {
 public:
  explicit Finder(Libraries& libraries) : libraries_(libraries) {}

  void* library(const std::vector<std::string>& names, const char* what, const char* hint) {
    std::string why;
    void* handle = open_any(libraries_, names, why);
    if (handle == nullptr) say(fmt::format("{} ({}){}", what, why, hint));
    return handle;
  }
  template <class Function>
  void function(void* library, const char* name, Function& result) {
    result = reinterpret_cast<Function>(libraries_.symbol(library, name));
    if (result == nullptr) say(fmt::format("the library that was found has no {}", name));
  }
  void say(const std::string& what) {
    if (!missing_.empty()) missing_.append("; ");
    missing_.append(what);
  }
  void throw_if_missing() const {
    if (missing_.empty()) return;
    // The caller says what cannot be done without it.
    throw BackendUnavailable(missing_, {.hint = "buffers in host memory need no nccl: backends native, tcp, mpi and gloo carry them"});
  }

 private:
  Libraries& libraries_;
  std::string missing_;
};

std::string cuda_version(int number) { return fmt::format("{}.{}", number / 1000, number % 1000 / 10); }

std::string text_of_no_device(const Settings& settings) {
  if (settings.visible_devices.empty() && !settings.hides_devices) return "no CUDA device is on this machine";
  return fmt::format("no CUDA device is visible (CUDA_VISIBLE_DEVICES={})", settings.visible_devices);
}

void look_for_devices(Finder& finder, Vendor& vendor) {
  const CudaApi& cuda = vendor.cuda;
  const CudaError error = cuda.get_device_count(&vendor.devices);
  if (error == CudaError::success && vendor.devices > 0) return;
  cuda.get_last_error();  // clears the error, so that the program's next check does not find it
  if (error == CudaError::insufficient_driver || error == CudaError::stub_library) {
    int driver = 0, runtime = 0;
    cuda.driver_get_version(&driver);
    cuda.runtime_get_version(&runtime);
    finder.say(driver == 0 ? std::string("no NVIDIA driver is at work on this machine")
                           : fmt::format("the NVIDIA driver is for CUDA {}, and the runtime is of CUDA {}: the driver is too old",
                                         cuda_version(driver), cuda_version(runtime)));
  } else if (error == CudaError::success || error == CudaError::no_device) {
    finder.say(text_of_no_device(vendor.settings));
  } else {
    finder.say(fmt::format("the CUDA runtime finds no device: {} ({}){}", cuda.get_error_string(error), cuda.get_error_name(error),
                           error == CudaError::initialization_error ? "; was CUDA used in the program before it forked this process?" : ""));
  }
}

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? std::string() : std::string(text);
}

/// Checks a library that a variable names: its path must be absolute, and no other user may be able to change it.
void check_chosen(Finder& finder, const char* name, const std::string& path) {
  if (path.empty()) return;
  if (!path.starts_with('/')) finder.say(fmt::format("{}={} is not an absolute path", name, path));
  else if (const std::string danger = base::why_not_to_run(path); !danger.empty()) finder.say(fmt::format("{} is not loaded: {}", path, danger));
}

/// Finds the libraries and their functions, and calls no function of the CUDA runtime.
std::shared_ptr<Vendor> find(Finder& finder, Libraries& libraries, const Settings& settings, Wanted wanted) {
  auto vendor = std::make_shared<Vendor>();
  vendor->settings = settings;
  check_chosen(finder, "UNISONO_NCCL_LIBRARY", settings.nccl_library);
  check_chosen(finder, "UNISONO_CUDART_LIBRARY", settings.cudart_library);
  finder.throw_if_missing();
  void* nccl = nullptr;
  if (wanted == Wanted::all) {
    nccl = finder.library(names_of(settings.nccl_library, {"libnccl.so.2", "libnccl.so"}), "no NCCL library",
                          "; install NCCL, or set UNISONO_NCCL_LIBRARY to the path of libnccl.so.2 (the Python package nvidia-nccl-cu13 has one)");
  }
  void* cudart = finder.library(names_of(settings.cudart_library, {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0", "libcudart.so"}),
                                "no CUDA runtime", "; install it, or set UNISONO_CUDART_LIBRARY to its path");
  finder.library({"libcuda.so.1"}, "no NVIDIA driver", "");
  if (nccl != nullptr) {
    finder.function(nccl, "ncclGetVersion", vendor->nccl.get_version);
    if (vendor->nccl.get_version != nullptr) vendor->nccl.get_version(&vendor->nccl_version);
    // An old version also lacks functions; only its age is reported.
    if (vendor->nccl_version < oldest_version) {
      const int version = vendor->nccl_version;  // up to 2.8 the number has fewer digits
      finder.say(fmt::format("NCCL {} is too old: 2.19 is the oldest that can be used",
                             version >= 10000 ? version_text(version) : fmt::format("{}.{}.{}", version / 1000, version / 100 % 10, version % 100)));
    } else {
#define UNISONO_FIND(member, name, result, parameters) finder.function(nccl, #name, vendor->nccl.member);
      UNISONO_NCCL_FUNCTIONS(UNISONO_FIND)
#undef UNISONO_FIND
    }
  }
  if (cudart != nullptr) {
#define UNISONO_FIND(member, name, result, parameters) finder.function(cudart, #name, vendor->cuda.member);
    UNISONO_CUDA_FUNCTIONS(UNISONO_FIND)
#undef UNISONO_FIND
  }
  finder.throw_if_missing();
  vendor->nvml = find_management(libraries);
  return vendor;
}

}  // namespace

Libraries& system_libraries() {
  static auto& libraries = *new SystemLibraries;
  return libraries;
}

Settings Settings::of_process() {
  const std::string shared = variable("NCCL_MULTI_RANK_GPU_ENABLE");
  const std::string visible = variable("CUDA_VISIBLE_DEVICES");
  return {.nccl_library = base::variable_of_code("UNISONO_NCCL_LIBRARY").value_or(""),
          .cudart_library = base::variable_of_code("UNISONO_CUDART_LIBRARY").value_or(""),
          .visible_devices = visible,
          .hides_devices = std::getenv("CUDA_VISIBLE_DEVICES") != nullptr && (visible.empty() || visible.starts_with("-1")),
          .shared_devices = !shared.empty() && shared != "0"};
}

std::string version_text(int version) { return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100); }

std::shared_ptr<const Vendor> load(Libraries& libraries, const Settings& settings, Wanted wanted) {
  Finder finder(libraries);
  auto vendor = find(finder, libraries, settings, wanted);
  look_for_devices(finder, *vendor);
  finder.throw_if_missing();
  return vendor;
}

std::string why_not(Libraries& libraries, const Settings& settings) {
  try {
    Finder finder(libraries);
    const auto vendor = find(finder, libraries, settings, Wanted::all);
    if (settings.hides_devices || devices_of_driver(vendor->nvml) == 0U) finder.say(text_of_no_device(settings));
    finder.throw_if_missing();
    return {};
  } catch (const BackendUnavailable& missing) {
    return missing.message();
  }
}

std::shared_ptr<const Vendor> vendor(Wanted wanted) {
  static std::mutex mutex;
  static auto& known = *new std::array<std::shared_ptr<const Vendor>, 2>;  // never destroyed: threads may use them while the process ends
  const std::lock_guard lock(mutex);
  auto& own = known[static_cast<std::size_t>(wanted)];
  if (!own) own = load(system_libraries(), Settings::of_process(), wanted);
  return own;
}

int choose_device(const Vendor& vendor, int local_rank) {
  // A launcher may show each process only its own device, which is device 0 for each of them then.
  if (local_rank < vendor.devices) return local_rank;
  if (vendor.devices == 1 || vendor.settings.shared_devices) return local_rank % vendor.devices;
  throw BackendUnavailable(
      fmt::format("nccl cannot be used here: local rank {} has no device of its own, {} are visible", local_rank, vendor.devices),
      {.hint = "start no more processes on a host than it has devices (or set NCCL_MULTI_RANK_GPU_ENABLE=1)"});
}

}  // namespace unisono::engines::nccl
