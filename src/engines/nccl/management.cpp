// The driver's management library (NVML): devices, and the memory that this process has on them.
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "engines/nccl/loader.h"

namespace unisono::engines::nccl {
namespace {

/// Allows calls of NVML during its lifetime. The library counts how often it was opened.
class Session {
 public:
  explicit Session(const NvmlApi& nvml) : nvml_(nvml), result_(nvml.init()) {}
  ~Session() {
    if (result_ == NvmlResult::success) nvml_.shutdown();
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  NvmlResult result() const { return result_; }

 private:
  const NvmlApi& nvml_;
  NvmlResult result_;
};

// There may be more processes at each attempt.
constexpr unsigned processes_at_once = 16;
constexpr int attempts = 4;

std::vector<NvmlProcess> processes_on(const NvmlApi& nvml, NvmlDevice device) {
  unsigned room = processes_at_once;
  for (int attempt = 0; attempt < attempts; ++attempt) {
    // The memory is twice as long, since some drivers of the series 535 write longer entries under this name.
    std::vector<NvmlProcess> processes(std::size_t{2} * room);
    unsigned count = room;
    const NvmlResult result = nvml.get_processes(device, &count, processes.data());
    if (result == NvmlResult::success) {
      processes.resize(std::min(count, room));
      return processes;
    }
    if (result != NvmlResult::insufficient_size) break;
    room = std::max(count, room) + processes_at_once;
  }
  return {};
}

}  // namespace

NvmlApi find_management(Libraries& libraries) {
  std::string ignored;
  void* library = libraries.open("libnvidia-ml.so.1", false, ignored);
  if (library == nullptr) return {};
  NvmlApi nvml;
  bool complete = true;
#define UNISONO_FIND(member, name, result, parameters)                                     \
  nvml.member = reinterpret_cast<decltype(nvml.member)>(libraries.symbol(library, #name)); \
  complete = complete && nvml.member != nullptr;
  UNISONO_NVML_FUNCTIONS(UNISONO_FIND)
#undef UNISONO_FIND
  return complete ? nvml : NvmlApi{};
}

std::optional<unsigned> devices_of_driver(const NvmlApi& nvml) {
  if (nvml.init == nullptr) return std::nullopt;
  const Session session(nvml);
  if (session.result() == NvmlResult::driver_not_loaded) return 0;
  unsigned count = 0;
  if (session.result() != NvmlResult::success || nvml.get_count(&count) != NvmlResult::success) return std::nullopt;
  return count;
}

std::optional<std::size_t> memory_of_process(const NvmlApi& nvml, const std::string& bus) {
  if (nvml.init == nullptr) return std::nullopt;
  static const NvmlResult opened = nvml.init();  // stays open, as opening takes some time
  NvmlDevice handle = nullptr;
  if (opened != NvmlResult::success || nvml.get_device(bus.c_str(), &handle) != NvmlResult::success) return std::nullopt;
  std::optional<std::size_t> own;
  for (const NvmlProcess& process : processes_on(nvml, handle)) {
    if (process.pid != static_cast<unsigned>(::getpid()) || process.used_memory == nvml_not_available) continue;
    own = own.value_or(0) + static_cast<std::size_t>(process.used_memory);
  }
  return own;
}

}  // namespace unisono::engines::nccl
