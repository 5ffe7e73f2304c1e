#include "base/secret.h"

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <mutex>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "unisono/error.h"

namespace unisono::base {
namespace {

constexpr std::size_t slot_size = 64;
constexpr std::size_t page_size = slot_size * std::numeric_limits<std::uint64_t>::digits;

char* map_pages(std::size_t size) {
  void* const pages = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) throw Error(fmt::format("there is no memory for {} bytes of secrets: {}", size, std::generic_category().message(errno)));
  ::madvise(pages, size, MADV_DONTDUMP);  // where the system refuses, the secret is at least overwritten in the end
  return static_cast<char*>(pages);
}

/// Most secrets are short: a page holds as many as a word has bits, in slots of equal size.
class Slots {
 public:
  char* take() {
    const std::lock_guard lock(mutex_);
    auto page = std::ranges::find_if(pages_, [](const Page& each) { return ~each.taken != 0; });
    if (page == pages_.end()) page = pages_.insert(pages_.end(), Page{map_pages(page_size)});
    const int slot = std::countr_one(page->taken);
    page->taken |= std::uint64_t{1} << slot;
    return page->bytes + static_cast<std::size_t>(slot) * slot_size;
  }

  void release(char* bytes) {
    ::explicit_bzero(bytes, slot_size);
    const std::lock_guard lock(mutex_);
    const auto page = std::ranges::find_if(pages_, [&](const Page& each) { return each.bytes <= bytes && bytes < each.bytes + page_size; });
    page->taken &= ~(std::uint64_t{1} << (static_cast<std::size_t>(bytes - page->bytes) / slot_size));
    if (page->taken != 0) return;
    ::munmap(page->bytes, page_size);
    pages_.erase(page);
  }

  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  struct Page {
    char* bytes;
    std::uint64_t taken = 0;
  };

  std::mutex mutex_;
  std::vector<Page> pages_;
};

// Never destroyed: static objects may hold secrets while the process ends. A child of fork goes on with the slots, whatever another thread of its
// parent was doing with them.
Slots& slots() {
  static Slots& instance = *new Slots;
  static const int registered = ::pthread_atfork([] { slots().lock(); }, [] { slots().unlock(); }, [] { slots().unlock(); });
  static_cast<void>(registered);
  return instance;
}

}  // namespace

std::shared_ptr<char> Secret::allocate(std::size_t size) {
  if (size <= slot_size) return {slots().take(), [](char* bytes) { slots().release(bytes); }};
  return {map_pages(size), [size](char* bytes) {
            ::explicit_bzero(bytes, size);
            ::munmap(bytes, size);
          }};
}

Secret Secret::copy_of(std::string_view text) {
  Secret made = filled(text.size(), [&](char* bytes) { return text.copy(bytes, text.size()); });
  clear_vector_registers();
  return made;
}

Secret Secret::taking(std::string&& text) {
  Secret taken(text);
  wipe(text);
  return taken;
}

void wipe_front(std::string& buffer, std::size_t size) noexcept {
  const std::size_t kept = buffer.size() - size;
  std::memmove(buffer.data(), buffer.data() + size, kept);
  ::explicit_bzero(buffer.data() + kept, size);
  buffer.resize(kept);
  clear_vector_registers();
}

void append_wiping(std::string& buffer, std::string_view bytes) {
  const std::size_t size = buffer.size() + bytes.size();
  if (size > buffer.capacity()) {
    std::string larger;
    larger.reserve(std::max(size, 2 * buffer.capacity()));
    larger.append(buffer);
    buffer.swap(larger);
    wipe(larger);
  }
  buffer.append(bytes);
  clear_vector_registers();
}

}  // namespace unisono::base
