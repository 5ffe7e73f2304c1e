#include "objects/part_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <random>

#include "base/file_descriptor.h"
#include "base/files.h"
#include "base/socket.h"
#include "unisono/error.h"

namespace unisono::objects {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const char* what, const fs::path& path, int error) {
  throw InvalidArgument(fmt::format("cannot {} {}: {}", what, path.native(), base::error_text(error)),
                        {.hint = "a directory that all ranks reach is needed; or collect by communication"});
}

/// Repeats the call while a signal interrupts it.
template <class F>
auto retried(F&& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

}  // namespace

PartDirectory::PartDirectory(const fs::path& given) : path_(given), own_(given.empty()) {
  if (!own_) {
    std::error_code error;
    fs::create_directories(path_, error);
    if (error) fail("make the directory", path_, error.value());
    return;
  }
  std::string name = (fs::current_path() / ".unisono-results-XXXXXX").native();
  if (::mkdtemp(name.data()) == nullptr) fail("make a directory like", name, errno);
  path_ = name;
}
PartDirectory::~PartDirectory() {
  if (!own_) return;
  // std::filesystem::remove_all stops at a file that another process removes first, and the other ranks remove theirs at the same time.
  std::error_code ignored;
  for (fs::directory_iterator entry(path_, ignored), end; !ignored && entry != end; entry.increment(ignored)) ::unlink(entry->path().c_str());
  ::rmdir(path_.c_str());
}

PartFile::~PartFile() {
  if (written_) ::unlink(path_.c_str());
}

void PartFile::write(std::span<const std::byte> bytes) {
  base::FileDescriptor file(retried([&] { return ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600); }));
  if (!file) fail("write", path_, errno);
  written_ = true;
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail("write", path_, errno);
  owner_ = status.st_uid;
  mode_ = status.st_mode;
  const base::NoSizeSignal no_signal;
  while (!bytes.empty()) {
    const ssize_t n = retried([&] { return ::write(file.get(), bytes.data(), bytes.size()); });
    if (n < 0) fail("write", path_, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  if (::close(file.release()) != 0 && errno != EINTR) fail("write", path_, errno);  // network file systems may report a failed write only now
}

void PartFile::read_other(const fs::path& path, std::span<std::byte> bytes) const {
  const base::FileDescriptor file(retried([&] { return ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC); }));
  if (!file) fail("read", path, errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail("read", path, errno);
  if (!S_ISREG(status.st_mode) || status.st_size != static_cast<off_t>(bytes.size())) {
    throw InvalidArgument(fmt::format("{} is not the file of {} bytes that was written", path.native(), bytes.size()));
  }
  if (status.st_uid != owner_ || (status.st_mode & ~mode_ & (S_IWGRP | S_IWOTH)) != 0) {
    throw InvalidArgument(fmt::format("{} belongs to another user or can be written by one", path.native()));
  }
  while (!bytes.empty()) {
    const ssize_t n = retried([&] { return ::read(file.get(), bytes.data(), bytes.size()); });
    if (n < 0) fail("read", path, errno);
    if (n == 0) throw InvalidArgument(fmt::format("{} became shorter while it was read", path.native()));
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

std::string random_name() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", device(), device(), device(), device());
}

}  // namespace unisono::objects
