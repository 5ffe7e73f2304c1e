#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <optional>
#include <string>

#include "base/file_descriptor.h"

namespace unisono::base {

/// Address space over a memory file that other processes of this host can map as well, and whatever is allocated of it. Pages cost nothing until they
/// are touched, and are given back when their block is.
class SharedPool final : public std::pmr::memory_resource {
 public:
  /// Null where the system grants none. `most`: bytes of address space.
  static std::unique_ptr<SharedPool> make(std::size_t most);
  ~SharedPool() override;

  /// Where memory lies in the pool; nullopt if not all of it does.
  std::optional<std::uint64_t> offset_of(const void* memory, std::size_t bytes) const noexcept {
    const auto offset = reinterpret_cast<std::uintptr_t>(memory) - reinterpret_cast<std::uintptr_t>(base_);
    if (offset > size_ || bytes > size_ - offset) return std::nullopt;
    return offset;
  }
  std::byte* base() const noexcept { return base_; }
  std::size_t size() const noexcept { return size_; }
  int descriptor() const noexcept { return file_.get(); }
  std::uint64_t inode() const noexcept { return inode_; }  ///< of the memory file: no other on this host has it as long as it lives
  std::size_t allocated() const;

 private:
  SharedPool(FileDescriptor file, std::byte* base, std::size_t size, std::uint64_t inode);
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) override;
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }

  FileDescriptor file_;
  std::byte* base_;
  std::size_t size_;
  std::uint64_t inode_;
  mutable std::mutex mutex_;
  std::map<std::size_t, std::size_t> free_;  // offset -> bytes; neighbours are joined
};

/// The pool of this process if it has made one (shared_resource() does), else null; null in a child of fork.
const SharedPool* shared_pool() noexcept;

/// Another process's pool, mapped here to be read. A child of fork has it as well, so that there, too, nothing else is where it was.
class MappedPool {
 public:
  /// The same mapping for all who ask while one has it. Null where the pool cannot be reached, is another one by now, or would leave too little of
  /// the address space.
  static std::shared_ptr<const MappedPool> map(int pid, int descriptor, std::uint64_t inode, std::size_t size);
  ~MappedPool();
  MappedPool(const MappedPool&) = delete;
  MappedPool& operator=(const MappedPool&) = delete;
  const std::byte* base() const noexcept { return base_; }
  std::size_t size() const noexcept { return size_; }

 private:
  MappedPool(std::byte* base, std::size_t size) : base_(base), size_(size) {}
  std::byte* base_;
  std::size_t size_;
};

}  // namespace unisono::base
