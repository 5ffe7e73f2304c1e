#include "recorder/record_memory.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <new>
#include <string>
#include <system_error>
#include <utility>

#include "base/environment.h"
#include "base/host.h"
#include "base/log.h"
#include "base/socket.h"
#include "recorder/layout.h"
#include "recorder/trace_file.h"

namespace unisono::recorder {
namespace {

bool is_record_file(int fd, std::size_t bytes) {
  struct stat about {};
  if (::fstat(fd, &about) != 0 || static_cast<std::size_t>(about.st_size) != bytes) return false;
  std::error_code error;
  const auto name = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd), error);
  return !error && name.native().starts_with("/memfd:" + std::string(record_name));
}

}  // namespace

std::shared_ptr<void> mapped(base::FileDescriptor descriptor, std::size_t bytes) {
  if (!descriptor) return nullptr;
  void* const address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.get(), 0);
  if (address == MAP_FAILED) return nullptr;
  auto file = std::make_shared<base::FileDescriptor>(std::move(descriptor));
  return {address, [file, bytes](void* memory) { ::munmap(memory, bytes); }};
}

std::shared_ptr<void> inherited_memory(std::size_t bytes) {
  const auto given = base::Environment::process().get_int(record_variable);
  if (!given || *given < 0 || !is_record_file(*given, bytes)) return nullptr;
  base::set_close_on_exec(*given);
  auto memory = mapped(base::FileDescriptor(*given), bytes);
  if (!memory) return nullptr;
  auto& header = *static_cast<RecordHeader*>(memory.get());
  std::int32_t owner = header.pid.load();
  if (owner != 0 && owner != ::getpid() && !base::has_ended(owner, header.life.load())) return nullptr;
  if (!header.pid.compare_exchange_strong(owner, ::getpid())) return nullptr;
  std::memset(memory.get(), 0, bytes);
  return memory;
}

base::FileDescriptor trace_file() {
  const base::Environment& environment = base::Environment::process();
  const auto given = environment.get_int(record_variable);
  if (given && *given >= 0 && room_of_trace(*given)) {
    std::uint64_t magic = 0;
    base::set_close_on_exec(*given);
    if (::pread(*given, &magic, sizeof magic, 0) == static_cast<ssize_t>(sizeof magic) && magic == 0) return base::FileDescriptor(*given);
  }
  const auto folder = environment.get(trace_variable);
  if (!folder) return {};
  auto made = make_trace_file(*folder, base::host_name() + "-" + std::to_string(::getpid()) + "-" + std::to_string(steady_ns()));
  if (!made.fd)
    base::warn("no trace can be written into " + *folder + ", which " + trace_variable + " names: " + std::generic_category().message(made.error));
  return std::move(made.fd);
}

std::shared_ptr<void> own_memory(std::size_t bytes) {
  return {::operator new (bytes, std::align_val_t{alignof(RecordHeader)}),
          [](void* memory) { ::operator delete (memory, std::align_val_t{alignof(RecordHeader)}); }};
}

}  // namespace unisono::recorder
