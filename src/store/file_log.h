#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "store/table.h"

namespace unisono::store {

/// The first byte of the file stands for its content; whoever reads or appends holds a lock on it. Bytes from `presence_base` on are far behind any
/// content and never written: a rendezvous shows by locks on them who is alive.
inline constexpr std::int64_t presence_base = std::int64_t{1} << 40;

/// Open-file-description locks on ranges of a file: of a thread as well as of a process, gone with the descriptor, however its owner ends.
bool try_lock_bytes(int fd, std::int64_t begin, std::int64_t length, bool exclusive);
void unlock_bytes(int fd, std::int64_t begin, std::int64_t length);
/// True where another descriptor holds a lock in the range.
bool bytes_are_locked(int fd, std::int64_t begin, std::int64_t length);

/// A table kept as a file that many processes append to. Each record has a checksum: what a process that died left half-written is cut off by the
/// next writer. All calls but the constructor need the lock, held by a `Guard`.
class FileLog {
 public:
  /// Opens or creates. InvalidArgument where that is not possible, or the file is something else.
  explicit FileLog(std::string path);

  class Guard {
   public:
    explicit Guard(int fd) : fd_(fd) {}
    Guard(Guard&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Guard& operator=(Guard&&) = delete;
    ~Guard() {
      if (fd_ >= 0) unlock_bytes(fd_, 0, 1);
    }
    explicit operator bool() const { return fd_ >= 0; }

   private:
    int fd_;
  };
  /// Empty where another holds it at this moment.
  Guard try_lock(bool exclusive);

  /// Brings the table up to date with what others appended.
  void refresh();
  void set(std::string_view key, std::string_view value);
  bool erase(std::string_view key);
  const Table& table() const { return table_; }
  const std::string& path() const { return path_; }
  int fd() const { return fd_.get(); }

 private:
  enum class Kind : std::uint8_t { set = 1, erase };
  void reopen_after_fork();
  void append(Kind kind, std::string_view key, std::string_view value);
  void apply(std::string_view body);

  std::string path_;
  base::FileDescriptor fd_;
  int pid_;
  std::int64_t end_ = 0;  ///< of the last whole record that was read
  Table table_;
};

}  // namespace unisono::store
