// Blocks are whole pages, first fit, from one address range over a memory file. Small requests are served from larger blocks by the standard
// library's pools, which stand in front. The address space is reserved once (a file without pages), so another process needs only a block's offset.
#include "base/shared_pool.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <new>

#include <fmt/format.h>

#include "base/files.h"
#include "base/log.h"
#include "unisono/shared_memory.h"

namespace unisono {
namespace base {
namespace {

constexpr std::size_t page = 4096;
/// The smallest pool that is worth its descriptor.
constexpr std::size_t least = std::size_t{64} << 20;
// Limits of address space: a process has 128 TiB, and every rank of a host maps the pools of all others.
constexpr std::size_t most_of_process = std::size_t{256} << 30;
constexpr std::size_t most_mapped = std::size_t{32} << 40;

std::size_t pages_of(std::size_t bytes) { return (bytes + page - 1) / page * page; }

/// Returns the size to which this process may grow a file. Beyond it the kernel ends the process (SIGXFSZ).
std::size_t file_size_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::numeric_limits<std::size_t>::max();
  return static_cast<std::size_t>(limit.rlim_cur) / page * page;
}

std::byte* map_file(int file, std::size_t size, int protection) {
  void* address = ::mmap(nullptr, size, protection, MAP_SHARED | MAP_NORESERVE, file, 0);
  return address == MAP_FAILED ? nullptr : static_cast<std::byte*>(address);
}

std::uint64_t inode_of(int file) {
  struct stat status {};
  return ::fstat(file, &status) == 0 ? status.st_ino : 0;
}

}  // namespace

std::unique_ptr<SharedPool> SharedPool::make(std::size_t most) {
  for (std::size_t size = std::min(pages_of(most), file_size_limit()); size >= least; size = pages_of(size / 2)) {
    FileDescriptor file = make_memory_file("unisono-pool", size).fd;
    if (!file) continue;
    if (std::byte* base = map_file(file.get(), size, PROT_READ | PROT_WRITE)) {
      ::madvise(base, size, MADV_DONTFORK);  // a child of fork would write into its parent's memory
      const std::uint64_t inode = inode_of(file.get());
      return std::unique_ptr<SharedPool>(new SharedPool(std::move(file), base, size, inode));
    }
  }
  return nullptr;
}

SharedPool::SharedPool(FileDescriptor file, std::byte* base, std::size_t size, std::uint64_t inode)
    : file_(std::move(file)), base_(base), size_(size), inode_(inode), free_{{0, size}} {}

SharedPool::~SharedPool() { ::munmap(base_, size_); }

std::size_t SharedPool::allocated() const {
  const std::lock_guard lock(mutex_);
  std::size_t free = 0;
  for (const auto& [offset, bytes] : free_) free += bytes;
  return size_ - free;
}

void* SharedPool::do_allocate(std::size_t bytes, std::size_t alignment) {
  if (bytes > size_) throw std::bad_alloc();
  const std::size_t needed = pages_of(std::max<std::size_t>(bytes, 1));
  const std::lock_guard lock(mutex_);
  for (auto block = free_.begin(); block != free_.end(); ++block) {
    const auto address = reinterpret_cast<std::uintptr_t>(base_) + block->first;
    const std::size_t skipped = (alignment - address % alignment) % alignment;
    if (block->second < needed || block->second - needed < skipped) continue;
    const std::size_t offset = block->first + skipped;
    const std::size_t rest = block->second - needed - skipped;
    if (skipped > 0) block->second = skipped;
    else free_.erase(block);
    if (rest > 0) free_.emplace(offset + needed, rest);
    return base_ + offset;
  }
  throw std::bad_alloc();
}

void SharedPool::do_deallocate(void* memory, std::size_t bytes, std::size_t) {
  const auto offset = static_cast<std::size_t>(static_cast<std::byte*>(memory) - base_);
  std::size_t size = pages_of(std::max<std::size_t>(bytes, 1));
  ::madvise(memory, size, MADV_REMOVE);
  const std::lock_guard lock(mutex_);
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && offset + size == next->first) {
    size += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += size;
      return;
    }
  }
  free_.emplace(offset, size);
}

namespace {

/// The pools of other processes that are mapped now, by inode: no other file has that inode while one of them is mapped. A pool takes address space
/// once, however many groups of the process use it.
struct Mapped {
  std::mutex mutex;
  std::map<std::uint64_t, std::weak_ptr<const MappedPool>> pools;
  std::size_t bytes = 0;
};
Mapped& mapped() {
  static auto& instance = *new Mapped;  // never destroyed: it lives until the process ends
  return instance;
}

std::byte* map_descriptor_of(int pid, int descriptor, std::uint64_t inode, std::size_t size) {
  const std::string path = fmt::format("/proc/{}/fd/{}", pid, descriptor);
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file || inode_of(file.get()) != inode) return nullptr;
  struct stat status {};
  if (::fstat(file.get(), &status) != 0 || static_cast<std::size_t>(status.st_size) != size) return nullptr;
  return map_file(file.get(), size, PROT_READ);
}

}  // namespace

std::shared_ptr<const MappedPool> MappedPool::map(int pid, int descriptor, std::uint64_t inode, std::size_t size) {
  Mapped& all = mapped();
  const std::lock_guard lock(all.mutex);
  auto& known = all.pools[inode];
  auto pool = known.lock();
  if (pool) return pool->size() == size ? pool : nullptr;
  if (size > most_mapped || all.bytes > most_mapped - size) return nullptr;
  std::byte* base = map_descriptor_of(pid, descriptor, inode, size);
  if (base == nullptr) return nullptr;
  pool.reset(new MappedPool(base, size));
  known = pool;
  all.bytes += size;
  return pool;
}

MappedPool::~MappedPool() {
  ::munmap(base_, size_);
  Mapped& all = mapped();
  const std::lock_guard lock(all.mutex);
  all.bytes -= size_;
  std::erase_if(all.pools, [](const auto& entry) { return entry.second.expired(); });
}

namespace {

/// Larger requests get pages of the pool directly.
constexpr std::size_t largest_small_block = std::size_t{64} << 10;

/// Implements shared_resource(): memory from the pool where there is one with room, else ordinary memory.
class Resource final : public std::pmr::memory_resource {
 public:
  /// `parents` belongs to the process that this one was forked from; null: none.
  Resource(std::unique_ptr<SharedPool> pool, const Resource* parents) : pool_(std::move(pool)), parents_(parents) {
    if (pool_) blocks_.emplace(std::pmr::pool_options{.max_blocks_per_chunk = 0, .largest_required_pool_block = largest_small_block}, pool_.get());
  }
  const SharedPool* pool() const noexcept { return pool_.get(); }
  /// Reserves the pool's addresses in a child of fork, where the pool is not mapped. New memory cannot have them, so memory of the parent is
  /// recognised when it is freed.
  void keep_addresses_free() const noexcept {
    if (!pool_) return;
    static_cast<void>(::mmap(pool_->base(), pool_->size(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0));
  }

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    if (blocks_) {
      try {
        return blocks_->allocate(bytes, alignment);
      } catch (const std::bad_alloc&) {
        if (!said_.exchange(true)) warn("the pool of shared memory is full; from now on shared_resource() gives ordinary memory");
      }
    }
    return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  }
  void do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) override;
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }

  std::unique_ptr<SharedPool> pool_;
  const Resource* parents_;
  std::optional<std::pmr::synchronized_pool_resource> blocks_;
  std::atomic<bool> said_{false};
};

// The objects behind both pointers are never destroyed, so they outlive every other static object.
std::atomic<Resource*> of_process{nullptr};
// In a child of fork: the resource of its parent.
std::atomic<const Resource*> inherited{nullptr};
std::mutex& making() {
  static auto& instance = *new std::mutex;
  return instance;
}

void Resource::do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) {
  if (pool_ && pool_->offset_of(memory, bytes)) return blocks_->deallocate(memory, bytes, alignment);
  for (const Resource* one = parents_; one != nullptr; one = one->parents_) {
    if (one->pool_ && one->pool_->offset_of(memory, bytes)) return;
  }
  std::pmr::new_delete_resource()->deallocate(memory, bytes, alignment);
}

Resource& resource() {
  if (Resource* made = of_process.load(std::memory_order_acquire)) [[likely]]
    return *made;
  const std::lock_guard lock(making());
  if (Resource* made = of_process.load(std::memory_order_acquire)) return *made;
  struct sysinfo memory {};
  const std::size_t all = ::sysinfo(&memory) == 0 ? static_cast<std::size_t>(memory.totalram) * memory.mem_unit : least;
  auto pool = SharedPool::make(std::clamp(all, least, most_of_process));
  if (!pool) warn("the system grants no shared memory; shared_resource() gives ordinary memory");
  static const int registered = ::pthread_atfork([] { making().lock(); }, [] { making().unlock(); },
                                                 [] {
                                                   if (const Resource* parents = of_process.exchange(nullptr)) {
                                                     parents->keep_addresses_free();
                                                     inherited.store(parents);
                                                   }
                                                   making().unlock();
                                                 });
  static_cast<void>(registered);
  auto* made = new Resource(std::move(pool), inherited.load());
  of_process.store(made, std::memory_order_release);
  return *made;
}

}  // namespace

const SharedPool* shared_pool() noexcept {
  const Resource* made = of_process.load(std::memory_order_acquire);
  return made == nullptr ? nullptr : made->pool();
}

}  // namespace base

std::pmr::memory_resource* shared_resource() { return &base::resource(); }

bool is_shared(const void* memory, std::size_t bytes) noexcept {
  const base::SharedPool* pool = base::shared_pool();
  return pool != nullptr && pool->offset_of(memory, bytes).has_value();
}

}  // namespace unisono
