#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "engines/nccl/api.h"

namespace unisono::engines::nccl {

/// Opens libraries: those of the system, or a test's.
class Libraries {
 public:
  virtual ~Libraries() = default;
  /// Returns null where it cannot be opened, and the reason in `why`. With `present_only`, only one that the process has opened already.
  virtual void* open(const std::string& name, bool present_only, std::string& why) = 0;
  virtual void* symbol(void* library, const char* name) = 0;
};
Libraries& system_libraries();

/// Settings from the environment. Empty: not set.
struct Settings {
  std::string nccl_library;     ///< UNISONO_NCCL_LIBRARY
  std::string cudart_library;   ///< UNISONO_CUDART_LIBRARY
  std::string visible_devices;  ///< CUDA_VISIBLE_DEVICES
  bool hides_devices = false;   ///< CUDA_VISIBLE_DEVICES shows none
  bool shared_devices = false;  ///< NCCL_MULTI_RANK_GPU_ENABLE: several ranks may be on one device
  static Settings of_process();
};

/// NCCL and the CUDA runtime as they were found.
struct Vendor {
  NcclApi nccl;  ///< empty where only the runtime was asked for
  CudaApi cuda;
  NvmlApi nvml;  ///< empty where the library is missing
  int nccl_version = 0;
  int devices = 0;
  Settings settings;
};

/// Tells whether NCCL is opened, or the CUDA runtime alone.
enum class Wanted { all, runtime_only };

/// Opens the libraries and looks for a device. Throws BackendUnavailable, whose text is everything that is missing.
std::shared_ptr<const Vendor> load(Libraries& libraries, const Settings& settings, Wanted wanted = Wanted::all);
/// Returns what `load` would report as missing, as far as that is known without a call of the CUDA runtime, which children forked from a process that
/// has made one cannot use. Empty: nothing.
std::string why_not(Libraries& libraries, const Settings& settings);
/// Returns the libraries of the process, opened at the first successful call.
std::shared_ptr<const Vendor> vendor(Wanted wanted = Wanted::all);

/// Returns the device of a process, by its number among those of its host. Throws BackendUnavailable where there is none for it.
int choose_device(const Vendor& vendor, int local_rank);

/// Finds the driver's management library, where there is one. It knows devices without the CUDA runtime.
NvmlApi find_management(Libraries& libraries);
/// Returns how many devices the driver has; nothing where it is not known. It leaves no state that a forked child would miss.
std::optional<unsigned> devices_of_driver(const NvmlApi& nvml);
/// Returns the bytes of a device's memory that this process has; nothing if the driver does not tell, as may be in a container or a virtual machine.
/// `bus`: the device's PCI address, as the CUDA runtime writes it.
std::optional<std::size_t> memory_of_process(const NvmlApi& nvml, const std::string& bus);

/// Returns "2.32.3".
std::string version_text(int nccl_version);

}  // namespace unisono::engines::nccl
