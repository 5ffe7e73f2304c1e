#include "fake_vendor.h"

#include <algorithm>

#include "fake_machine.h"

using namespace unisono::engines::nccl;

#define DECLARE(member, name, result, parameters) extern "C" result name parameters;
UNISONO_NCCL_FUNCTIONS(DECLARE)
UNISONO_CUDA_FUNCTIONS(DECLARE)
UNISONO_NVML_FUNCTIONS(DECLARE)

namespace fake {

void reset(int devices) {
  Machine& m = machine();
  const std::lock_guard lock(m.mutex);
  m.devices = devices;
  m.stalled = false;
  m.stalled_devices.clear();
  m.captured.clear();
  m.misuse.clear();
  m.rules.clear();
  m.calls.clear();
  m.during.clear();
  m.communicators.clear();
  m.defaults.clear();
  m.orphans.clear();
  m.memory.clear();
  m.pageable = 0;
  m.others = 0;
  m.initialized_by = 0;
  device_of_thread = 0;
}

std::shared_ptr<const Vendor> vendor() {
  auto vendor = std::make_shared<Vendor>();
#define FILL_NCCL(member, name, result, parameters) vendor->nccl.member = ::name;
#define FILL_CUDA(member, name, result, parameters) vendor->cuda.member = ::name;
#define FILL_NVML(member, name, result, parameters) vendor->nvml.member = ::name;
  UNISONO_NCCL_FUNCTIONS(FILL_NCCL)
  UNISONO_CUDA_FUNCTIONS(FILL_CUDA)
  UNISONO_NVML_FUNCTIONS(FILL_NVML)
  vendor->nccl_version = 23203;
  vendor->devices = machine().devices;
  return vendor;
}

void* allocate(int device, std::size_t bytes) {
  const std::lock_guard lock(machine().mutex);
  std::vector<std::byte> memory(std::max<std::size_t>(bytes, 1));
  const std::byte* address = memory.data();
  machine().memory.emplace(address, Machine::Memory{.device = device, .bytes = std::move(memory)});
  return const_cast<std::byte*>(address);
}

void others(std::size_t bytes) {
  const std::lock_guard lock(machine().mutex);
  machine().others = bytes;
}

void answer(const std::string& function, Result result, Where where) {
  const std::lock_guard lock(machine().mutex);
  machine().rules[function].push_back({where, static_cast<int>(result), {}});
}
void answer(const std::string& function, CudaError error, Where where) {
  const std::lock_guard lock(machine().mutex);
  machine().rules[function].push_back({where, static_cast<int>(error), {}});
}
void in_progress(const std::string& function, int questions, Result outcome, Where where) {
  const std::lock_guard lock(machine().mutex);
  machine().rules[function].push_back({where, static_cast<int>(outcome), questions});
}
void during(const std::string& function, std::function<void()> f) {
  const std::lock_guard lock(machine().mutex);
  machine().during[function] = std::move(f);
}
void break_communicators(int rank, Result result) {
  const std::lock_guard lock(machine().mutex);
  for (Comm comm : machine().comms) {
    if (comm->rank == rank) comm->background = result;
  }
}
void stall(bool stalled) {
  const std::lock_guard lock(machine().mutex);
  machine().stalled = stalled;
}
void capture(void* stream, bool captured) {
  const std::lock_guard lock(machine().mutex);
  if (captured) machine().captured.insert(static_cast<Stream>(stream));
  else machine().captured.erase(static_cast<Stream>(stream));
}
void stall_device(int device, bool stalled) {
  const std::lock_guard lock(machine().mutex);
  if (stalled) machine().stalled_devices.insert(device);
  else machine().stalled_devices.erase(device);
}
std::string misuse() {
  const std::lock_guard lock(machine().mutex);
  return machine().misuse;
}
int leftovers() {
  const std::lock_guard lock(machine().mutex);
  pump();
  const auto is_kept = [](const auto& entry) { return entry.second.of_stream && !entry.second.given_back; };
  return static_cast<int>(machine().comms.size() + machine().streams.size() + machine().events.size() + machine().pinned.size() +
                          static_cast<std::size_t>(std::ranges::count_if(machine().memory, is_kept)));
}
std::size_t pageable_bytes() {
  const std::lock_guard lock(machine().mutex);
  return machine().pageable;
}
int calls(const std::string& function) {
  const std::lock_guard lock(machine().mutex);
  return machine().calls[function];
}
int current_device() { return device_of_thread; }

}  // namespace fake
