#include "group/messages/pending_receive.h"

#include <pthread.h>

#include <optional>
#include <type_traits>

namespace unisono::group {

/// The receives of a thread that are over, to be used again. They keep their lane and its Progress, so that a further receive of that lane need not
/// count itself there. They go when a thread ends, and not when the process does, where static objects of the program may still receive.
class RecycledReceives {
 public:
  RecycledReceives() = default;
  RecycledReceives(const RecycledReceives&) = delete;
  RecycledReceives& operator=(const RecycledReceives&) = delete;

  PendingReceive* take() noexcept {
    PendingReceive* const receive = first_;
    if (receive == nullptr) return nullptr;
    first_ = receive->next;
    --count_;
    return receive;
  }
  void put(PendingReceive* receive) noexcept {
    if (is_over_ || count_ == most || !ends_with_thread()) {
      delete receive;
      return;
    }
    receive->next = first_;
    first_ = receive;
    ++count_;
  }
  static PendingReceive* make_new() { return new PendingReceive; }

 private:
  void end() noexcept {
    is_over_ = true;  // states that the thread lets go of later than that
    while (PendingReceive* const receive = take()) delete receive;
  }
  /// Returns true where `end` will be called at the end of this thread.
  bool ends_with_thread() noexcept {
    static const std::optional<pthread_key_t> key = [] {
      pthread_key_t made{};
      const auto end = [](void* receives) { static_cast<RecycledReceives*>(receives)->end(); };
      return ::pthread_key_create(&made, end) == 0 ? std::optional(made) : std::nullopt;
    }();
    if (!is_known_ && key) is_known_ = ::pthread_setspecific(*key, this) == 0;
    return is_known_;
  }

#if defined(__SANITIZE_ADDRESS__)
  static constexpr int most = 0;  // a use of one that is gone shall show
#else
  static constexpr int most = 256;
#endif
  PendingReceive* first_ = nullptr;
  int count_ = 0;
  bool is_over_ = false;
  bool is_known_ = false;  // to the system, which says when the thread ends
};
static_assert(std::is_trivially_destructible_v<RecycledReceives>);

namespace {
thread_local RecycledReceives recycled;
}  // namespace

PendingReceive* PendingReceive::make(const std::shared_ptr<Progress>& progress, const std::shared_ptr<Lane>& lane, const About& about,
                                     std::uint64_t other) {
  PendingReceive* receive = recycled.take();
  if (receive == nullptr) receive = RecycledReceives::make_new();
  if (receive->lane != lane) {
    receive->progress = progress;
    receive->lane = lane;
  }
  receive->word.store(holder + other, std::memory_order_relaxed);
  receive->about_ = about;
  return receive;
}

void PendingReceive::dispose() noexcept {
  went_well.store(false, std::memory_order_relaxed);
  if (error) error = nullptr;
  settled = seen = dropped = warned = is_moving = false;
  then.clear();
  deadline_.reset();
  recycled.put(this);
}

}  // namespace unisono::group
