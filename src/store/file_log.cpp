#include "store/file_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include <fmt/format.h>

#include "base/files.h"
#include "base/hash.h"
#include "base/socket.h"
#include "store/wire.h"
#include "unisono/error.h"

namespace unisono::store {
namespace {

// The file is "UNISLOG" and the version of the format, then records: length of the body (4 bytes), its checksum (4), the body {kind, key, value}.
constexpr std::string_view file_magic{"UNISLOG\x01", 8};
constexpr std::size_t record_head = 8;

struct flock range_of(short type, std::int64_t begin, std::int64_t length) {
  return {.l_type = type, .l_whence = SEEK_SET, .l_start = begin, .l_len = length, .l_pid = 0};
}

int set_lock(int fd, short type, std::int64_t begin, std::int64_t length) {
  struct flock range = range_of(type, begin, length);
  for (;;) {
    if (::fcntl(fd, F_OFD_SETLK, &range) == 0) return 0;
    if (errno != EINTR) return errno;
  }
}

std::uint32_t checksum(std::string_view bytes) { return static_cast<std::uint32_t>(base::stable_hash(bytes)); }

// Does not follow a symbolic link, which another user may have put into a shared folder to lead to any file of ours, and does not wait for a pipe.
base::FileDescriptor open_file(const std::string& path) {
  return base::FileDescriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
}

}  // namespace

bool try_lock_bytes(int fd, std::int64_t begin, std::int64_t length, bool exclusive) {
  const int error = set_lock(fd, static_cast<short>(exclusive ? F_WRLCK : F_RDLCK), begin, length);
  if (error == 0) return true;
  if (error == EAGAIN || error == EACCES) return false;
  throw InvalidArgument(fmt::format("the file system does not lock files: {}", base::error_text(error)));
}

void unlock_bytes(int fd, std::int64_t begin, std::int64_t length) { set_lock(fd, F_UNLCK, begin, length); }

bool bytes_are_locked(int fd, std::int64_t begin, std::int64_t length) {
  struct flock range = range_of(F_WRLCK, begin, length);
  return ::fcntl(fd, F_OFD_GETLK, &range) == 0 && range.l_type != F_UNLCK;
}

FileLog::FileLog(std::string path) : path_(std::move(path)), fd_(open_file(path_)), pid_(::getpid()) {
  if (!fd_ && errno == ELOOP) throw InvalidArgument(fmt::format("the store file {} is a symbolic link, which is not followed", path_));
  if (!fd_) throw InvalidArgument(fmt::format("the store file {} cannot be opened: {}", path_, base::error_text(errno)));
  struct stat status {};
  if (::fstat(fd_.get(), &status) != 0 || !S_ISREG(status.st_mode))
    throw InvalidArgument(fmt::format("the store file {} is not a regular file", path_));
}

// Opens the file anew in a child of fork, which shares its parent's descriptor and with it the parent's locks.
void FileLog::reopen_after_fork() {
  if (pid_ == ::getpid()) return;
  base::FileDescriptor fresh(::open(fmt::format("/proc/self/fd/{}", fd_.get()).c_str(), O_RDWR | O_CLOEXEC));
  if (!fresh) throw InvalidArgument(fmt::format("the store file {} cannot be opened again after fork: {}", path_, base::error_text(errno)));
  fd_ = std::move(fresh);
  pid_ = ::getpid();
}

FileLog::Guard FileLog::try_lock(bool exclusive) {
  reopen_after_fork();
  return Guard(try_lock_bytes(fd_.get(), 0, 1, exclusive) ? fd_.get() : -1);
}

void FileLog::refresh() {
  std::string bytes;
  std::array<char, std::size_t{64} << 10> chunk;
  for (;;) {
    const ssize_t n = ::pread(fd_.get(), chunk.data(), chunk.size(), end_ + static_cast<std::int64_t>(bytes.size()));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw Error(fmt::format("the store file {} cannot be read: {}", path_, base::error_text(errno)));
    if (n == 0) break;
    bytes.append(chunk.data(), static_cast<std::size_t>(n));
  }
  std::string_view rest = bytes;
  if (end_ == 0 && !rest.empty()) {
    if (rest.substr(0, file_magic.size()) != file_magic.substr(0, rest.size()))
      throw InvalidArgument(fmt::format("{} is not a unisono store file", path_));
    if (rest.size() < file_magic.size()) return;
    rest.remove_prefix(file_magic.size());
    end_ = file_magic.size();
  }
  while (rest.size() >= record_head) {
    const std::size_t length = base::load_little_endian<std::uint32_t>(rest.data());
    if (rest.size() - record_head < length) return;  // its writer died; the next writer cuts it off
    const std::string_view body = rest.substr(record_head, length);
    if (checksum(body) != base::load_little_endian<std::uint32_t>(rest.data() + 4)) return;
    apply(body);
    rest.remove_prefix(record_head + length);
    end_ += static_cast<std::int64_t>(record_head + length);
  }
}

void FileLog::apply(std::string_view body) {
  Reader in(body);
  const auto kind = static_cast<Kind>(in.byte());
  const std::string_view key = in.text();
  const std::string_view value = in.text();
  if (!in.complete()) throw InvalidArgument(fmt::format("{} is not a store file of this version", path_));
  if (kind == Kind::set) {
    table_.set(key, value);
  } else {
    table_.erase(key);
  }
}

void FileLog::append(Kind kind, std::string_view key, std::string_view value) {
  base::ByteWriter content, bytes;
  const std::string body = content.put(static_cast<std::uint8_t>(kind)).text(key).text(value).take();
  if (end_ == 0) bytes.raw(file_magic);
  const std::string record = bytes.put(static_cast<std::uint32_t>(body.size())).put(checksum(body)).raw(body).take();
  const base::NoSizeSignal no_signal;
  if (::ftruncate(fd_.get(), end_) != 0) throw Error(fmt::format("the store file {} cannot be written: {}", path_, base::error_text(errno)));
  std::size_t written = 0;
  while (written < record.size()) {
    const ssize_t n = ::pwrite(fd_.get(), record.data() + written, record.size() - written, end_ + static_cast<std::int64_t>(written));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const int error = errno;
      [[maybe_unused]] const int cut = ::ftruncate(fd_.get(), end_);
      throw Error(fmt::format("the store file {} cannot be written: {}", path_, base::error_text(error)));
    }
    written += static_cast<std::size_t>(n);
  }
  end_ += static_cast<std::int64_t>(record.size());
}

void FileLog::set(std::string_view key, std::string_view value) {
  table_.admit(key, value);
  append(Kind::set, key, value);
  table_.set(key, value);
}

bool FileLog::erase(std::string_view key) {
  if (table_.find(key) == nullptr) return false;
  append(Kind::erase, key, {});
  return table_.erase(key);
}

}  // namespace unisono::store
