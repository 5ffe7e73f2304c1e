#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "store/table.h"

namespace unisono::store {

/// The first byte of the file stands for its content; readers and writers hold a lock on it. Bytes from `presence_base` on are never written, as they
/// lie far behind any content: a process of a rendezvous holds a lock on one of them while it lives.
inline constexpr std::int64_t presence_base = std::int64_t{1} << 40;

/// Locks a range of a file by its open file description: threads have locks of their own as well, and a lock ends with its descriptor, however its
/// owner ends.
bool try_lock_bytes(int fd, std::int64_t begin, std::int64_t length, bool exclusive);
void unlock_bytes(int fd, std::int64_t begin, std::int64_t length);
/// Returns true where another descriptor holds a lock in the range.
bool bytes_are_locked(int fd, std::int64_t begin, std::int64_t length);

/// A table in a file to which many processes append. Each record has a checksum, so the next writer recognises and removes a record that a dying
/// process left incomplete. All calls but the constructor need the lock, held by a `Guard`.
class FileLog {
 public:
  /// Opens or creates the file. Throws InvalidArgument where that is not possible, or the file has another format.
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
  /// Returns an empty guard where another holds the lock at this moment.
  Guard try_lock(bool exclusive);

  /// Reads the records that others have appended.
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
