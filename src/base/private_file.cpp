#include "base/private_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include <fmt/format.h>

#include "base/file_descriptor.h"
#include "base/socket.h"
#include "unisono/error.h"

namespace unisono::base {
namespace {

enum class Access { own, any };

std::string read_file(std::string_view what, const std::string& path, std::size_t most, Access access) {
  const auto refuse = [&](std::string_view why, std::string hint = {}) {
    throw InvalidArgument(fmt::format("{} {} {}", what, path, why), {.hint = std::move(hint)});
  };
  // O_NONBLOCK keeps a pipe of that name from blocking this process.
  const FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) refuse(fmt::format("cannot be read: {}", error_text(errno)));
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) refuse(fmt::format("cannot be read: {}", error_text(errno)));
  if (!S_ISREG(status.st_mode)) refuse("is no regular file");
  if (access == Access::own && status.st_uid != ::geteuid()) {
    refuse(fmt::format("belongs to user {}, and this process runs as user {}", status.st_uid, ::geteuid()),
           "the secret must be in a file of your own");
  }
  if (access == Access::own && (status.st_mode & 077) != 0) {
    refuse(fmt::format("is open to others (mode {:04o})", status.st_mode & 07777), fmt::format("chmod 600 {}", path));
  }
  std::string content(most + 1, '\0');
  std::size_t size = 0;
  while (size < content.size()) {
    const ssize_t n = ::read(fd.get(), content.data() + size, content.size() - size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) refuse(fmt::format("cannot be read: {}", error_text(errno)));
    if (n == 0) break;
    size += static_cast<std::size_t>(n);
  }
  if (size > most) refuse(fmt::format("is longer than {} bytes", most));
  content.resize(size);
  return content;
}

}  // namespace

std::string read_private_file(std::string_view what, const std::string& path, std::size_t most) { return read_file(what, path, most, Access::own); }
std::string read_public_file(std::string_view what, const std::string& path, std::size_t most) { return read_file(what, path, most, Access::any); }

}  // namespace unisono::base
