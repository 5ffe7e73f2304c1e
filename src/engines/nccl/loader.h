#pragma once

#include <memory>
#include <string>

#include "engines/nccl/api.h"

namespace unisono::engines::nccl {

/// How libraries are opened: by the system, or by a test.
class Libraries {
 public:
  virtual ~Libraries() = default;
  /// Null where it cannot be opened; `why` says so. With `present_only`, one that the process has opened already.
  virtual void* open(const std::string& name, bool present_only, std::string& why) = 0;
  virtual void* symbol(void* library, const char* name) = 0;
};
Libraries& system_libraries();

/// What the environment says. Empty: nothing.
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
  NcclApi nccl;  ///< nothing in it where only the runtime was asked for
  CudaApi cuda;
  NvmlApi nvml;  ///< nothing in it where the library is missing
  int nccl_version = 0;
  int devices = 0;
  Settings settings;
};

/// Whether NCCL is opened, or the CUDA runtime alone.
enum class Wanted { all, runtime_only };

/// Opens them and looks for a device. BackendUnavailable says everything that is missing.
std::shared_ptr<const Vendor> load(Libraries& libraries, const Settings& settings, Wanted wanted = Wanted::all);
/// What `load` would say is missing, as far as that shows without a call of the CUDA runtime: children forked from a process that has made one cannot
/// use it. Empty: nothing.
std::string why_not(Libraries& libraries, const Settings& settings);
/// What is opened once for the process, the first time that it is possible.
std::shared_ptr<const Vendor> vendor(Wanted wanted = Wanted::all);

/// The device of a process, by its number among those of its host. BackendUnavailable where there is none for it.
int choose_device(const Vendor& vendor, int local_rank);

/// "2.32.3"
std::string version_text(int nccl_version);

}  // namespace unisono::engines::nccl
