#include "base/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "base/size_limit.h"

namespace unisono::base {

Opened make_memory_file(const char* name, std::size_t bytes) {
  FileDescriptor file(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) return {.fd = {}, .error = errno};
  const NoSizeSignal no_signal;
  while (::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) {
    if (errno != EINTR) return {.fd = {}, .error = errno};
  }
  ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  return {.fd = std::move(file), .error = 0};
}

}  // namespace unisono::base
