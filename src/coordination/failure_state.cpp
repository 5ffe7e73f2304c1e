#include "coordination/failure_state.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <span>

#include "coordination/notices.h"

namespace unisono::coordination {
namespace {

/// The ranks, and the bytes of the text, that a notice names at most.
struct Limits {
  std::size_t missing, message;
};
constexpr Limits limits_of_record = {.missing = 256, .message = 768};
static_assert(limits_of_record.missing * sizeof(std::int32_t) + limits_of_record.message + 64 <= sizeof(engines::FailureRecord::notice));
enum RecordState : std::uint32_t { none = 0, writing = 1, there = 2 };

/// Comes between the failure and what the program does with its memory after it: a rank that still reads that memory then finds the failure.
void keep_before_later_writes() {
#if !defined(__SANITIZE_THREAD__)                       // the thread sanitizer does not support fences
  std::atomic_thread_fence(std::memory_order_release);  // litmus: failure-write-fence
#endif
}

std::string encode_failure(const Failure& failure, Limits limits) {
  base::ByteWriter notice = Notices::of_kind(NoticeKind::failure);
  notice.put(static_cast<std::uint8_t>(failure.kind)).put(static_cast<std::uint8_t>(failure.cause)).put(static_cast<std::int32_t>(failure.culprit));
  notice.put(static_cast<std::int32_t>(failure.reporter));
  const auto missing = std::span(failure.missing).first(std::min(failure.missing.size(), limits.missing));
  notice.put(static_cast<std::uint32_t>(missing.size()));
  for (const int r : missing) notice.put(static_cast<std::int32_t>(r));
  return notice.text(std::string_view(failure.message).substr(0, limits.message)).take();
}

}  // namespace

std::string encode_failure(const Failure& failure) { return encode_failure(failure, {.missing = 4096, .message = 1024}); }

std::optional<Failure> decode_failure(std::string_view notice, int ranks) {
  base::ByteReader content = Notices::content_of(notice);
  Failure failure;
  failure.kind = content.get<std::uint8_t>() == 0 ? Failure::Kind::timeout : Failure::Kind::peer_failed;
  failure.cause = static_cast<PeerFailed::Cause>(std::min(content.get<std::uint8_t>(), static_cast<std::uint8_t>(PeerFailed::disconnected)));
  failure.culprit = content.get<std::int32_t>();
  failure.reporter = content.get<std::int32_t>();
  for (auto left = content.get<std::uint32_t>(); left > 0 && content.ok(); --left) failure.missing.push_back(content.get<std::int32_t>());
  failure.message = content.text();
  if (!content.complete()) return std::nullopt;
  const auto is_no_rank = [&](int rank) { return rank < 0 || rank >= ranks; };
  if (is_no_rank(failure.culprit)) failure.culprit = -1;
  if (is_no_rank(failure.reporter)) failure.reporter = -1;
  std::erase_if(failure.missing, is_no_rank);
  return failure;
}

void record_failure(engines::FailureRecord& record, const Failure& failure) {
  const std::string notice = encode_failure(failure, limits_of_record);
  std::uint32_t expected = none;
  if (!record.state.compare_exchange_strong(expected, writing, std::memory_order_seq_cst)) {  // litmus: failure-claim
    keep_before_later_writes();
    return;
  }
  record.size = static_cast<std::uint32_t>(notice.size());
  std::memcpy(record.notice, notice.data(), notice.size());
  record.state.store(there, std::memory_order_seq_cst);  // litmus: failure-there
  keep_before_later_writes();
}

std::optional<Failure> recorded_failure(const engines::FailureRecord& record) {
  if (record.state.load(std::memory_order_acquire) != there) return std::nullopt;  // litmus: failure-look
  keep_before_later_writes();
  return decode_failure({record.notice, std::min<std::size_t>(record.size, sizeof record.notice)}, std::numeric_limits<int>::max());
}

void FailureState::record(const Failure& failure) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = failure;
    failed_.store(true, std::memory_order_release);
  }
  if (!host_.engine) return;
  engines::HostMemory& memory = *host_.engine->memory();
  record_failure(memory.failure(), failure);
  for (int r = 0; r < memory.ranks(); ++r) memory.notifier(r).notify();
}

void FailureState::take_announced(const Failure& failure) {
  const std::lock_guard lock(mutex_);
  if (announced_) return;
  announced_ = failure;
  announced_at_ = base::Clock::now();
  is_announced_.store(true, std::memory_order_release);
}

std::optional<Failure> FailureState::announced() const {
  if (!is_announced_.load(std::memory_order_acquire)) return std::nullopt;
  const std::lock_guard lock(mutex_);
  return announced_;
}

// Data that other ranks sent before one of them gave up still counts. It uses other connections than the notice of the failure, so an announced
// failure counts a little later.
std::optional<Failure> FailureState::read() const {
  constexpr auto time_to_arrive = std::chrono::milliseconds(20);
  if (host_.engine) {
    if (auto recorded = recorded_failure(host_.engine->memory()->failure())) return recorded;
  }
  const std::lock_guard lock(mutex_);
  if (failure_) return failure_;
  return announced_ && base::Clock::now() - announced_at_ >= time_to_arrive ? announced_ : std::nullopt;
}

}  // namespace unisono::coordination
