#include "group/messages/recv_task.h"

#include <pthread.h>

#include <algorithm>
#include <optional>
#include <type_traits>

#include <fmt/format.h>

#include "unisono/error.h"

namespace unisono::group {
namespace {

std::string elements(std::uint64_t bytes, DType dtype) {
  return fmt::format("{} × {}", to_string(dtype), bytes / std::max<std::size_t>(size_of(dtype), 1));
}

}  // namespace

void RecvTask::post(MessageMatcher& matcher, const engines::MessageCall& call) {
  matcher_ = &matcher;
  want(call.peer, call.tag);
  state_ = State::begun;
  dtype_ = call.data.dtype();
  kind_ = engines::kind_of(call);
  to_ = static_cast<std::byte*>(call.data.data());
  bytes_ = call.data.bytes();
  source_ = -1;
  delivery_.is_done = false;
  delivery_.task.reset();
  sequence_ = call.sequence;
  label_ = call.label;
  matcher.post(*this);
}

void RecvTask::withdraw() noexcept {
  if (is_reported()) matcher_->forget(*this);
  if (is_posted()) {
    matcher_->unpost(*this);
  } else if (state_ == State::taken && !delivery_.is_done) {
    const auto& [carrier, peer] = matcher_->route_of(source_);
    if (carrier->withdraw(peer, message_.ticket, delivery_)) matcher_->give(source_, message_);
  }
  state_ = State::begun;
}

bool RecvTask::advance() {
  if (state_ == State::over) return true;
  if (is_posted()) {
    matcher_->look_for(*this);
    if (is_posted()) return false;
  }
  if (!delivery_.is_done) {
    const auto& [carrier, peer] = matcher_->route_of(source_);
    carrier->advance(peer, delivery_);
    if (!delivery_.is_done) return false;
  }
  state_ = State::over;
  if (is_wrong()) throw_mismatch();
  return true;
}

std::vector<int> RecvTask::waiting_for() const {
  if (state_ == State::over) return {};
  if (source_ >= 0) return {source_};
  return matcher_->possible_sources(peer());
}

bool RecvTask::cancel() {
  if (!is_posted()) return false;
  withdraw();
  message_ = {};  // of an earlier use
  return true;
}

std::string RecvTask::remark() const {
  if (!is_posted()) return {};
  const auto stray = matcher_->unclaimed(peer());
  if (!stray) return {};
  const auto& [source, header] = *stray;
  return fmt::format("rank {} has sent it a message with tag {} ({}), which no receive has asked for", source, header.tag,
                     elements(header.bytes, engines::dtype_of_kind(header.kind)));
}

void RecvTask::take(int source, const engines::AnnouncedMessage& message) {
  state_ = State::taken;
  source_ = source;
  message_ = message;
  delivery_.to = is_wrong() ? nullptr : to_;
  const auto& [carrier, peer] = matcher_->route_of(source);
  carrier->deliver(peer, message.ticket, message.header, delivery_);
}

void RecvTask::throw_mismatch() const {
  const bool is_other_call = message_.header.kind != kind_ && ((message_.header.kind | kind_) & engines::labelled_kind) != 0;
  throw Mismatch(fmt::format("rank {} sent {}, but the receive is of {}{}", source_,
                             elements(message_.header.bytes, engines::dtype_of_kind(message_.header.kind)), elements(bytes_, dtype_),
                             is_other_call ? ", and by another kind of call" : ""),
                 {.operation = label_.empty() ? "recv" : std::string(label_),
                  .sequence = sequence_,
                  .rank = matcher_->rank(),
                  .culprit = source_,
                  .hint = "the message is gone, the group stays usable"});
}

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
