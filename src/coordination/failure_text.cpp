#include "coordination/failure_text.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <span>

#include "coordination/notices.h"

namespace unisono::coordination {
namespace {

constexpr std::size_t longest_message = 1024, most_missing = 4096;  // bytes, and ranks, in a notice to other hosts
enum RecordState : std::uint32_t { none = 0, writing = 1, there = 2 };

/// Comes between the failure and what the program does with its memory after it: a rank that still reads that memory then finds the failure.
void keep_before_later_writes() {
#if !defined(__SANITIZE_THREAD__)                       // the thread sanitizer does not support fences
  std::atomic_thread_fence(std::memory_order_release);  // litmus: failure-write-fence
#endif
}

}  // namespace

std::string encode_failure(const Failure& failure) {
  base::ByteWriter notice = Notices::of_kind(NoticeKind::failure);
  notice.put(static_cast<std::uint8_t>(failure.kind)).put(static_cast<std::uint8_t>(failure.cause)).put(static_cast<std::int32_t>(failure.culprit));
  notice.put(static_cast<std::int32_t>(failure.reporter));
  const auto missing = std::span(failure.missing).first(std::min(failure.missing.size(), most_missing));
  notice.put(static_cast<std::uint32_t>(missing.size()));
  for (const int r : missing) notice.put(static_cast<std::int32_t>(r));
  return notice.text(std::string_view(failure.message).substr(0, longest_message)).take();
}

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

void record_failure(engines::shm::FailureRecord& record, const Failure& failure) {
  std::uint32_t expected = none;
  if (!record.state.compare_exchange_strong(expected, writing, std::memory_order_seq_cst)) {  // litmus: failure-claim
    keep_before_later_writes();
    return;
  }
  record.kind = static_cast<std::uint8_t>(failure.kind);
  record.cause = static_cast<std::uint8_t>(failure.cause);
  record.culprit = failure.culprit;
  record.reporter = failure.reporter;
  record.missing_count = static_cast<std::uint32_t>(std::min(failure.missing.size(), engines::shm::FailureRecord::max_missing));
  std::copy_n(failure.missing.begin(), record.missing_count, record.missing);
  record.message_size = static_cast<std::uint32_t>(std::min(failure.message.size(), engines::shm::FailureRecord::max_message));
  std::memcpy(record.message, failure.message.data(), record.message_size);
  record.state.store(there, std::memory_order_seq_cst);  // litmus: failure-there
  keep_before_later_writes();
}

std::optional<Failure> recorded_failure(const engines::shm::FailureRecord& record) {
  if (record.state.load(std::memory_order_acquire) != there) return std::nullopt;  // litmus: failure-look
  keep_before_later_writes();
  Failure failure;
  failure.kind = static_cast<Failure::Kind>(record.kind);
  failure.cause = static_cast<PeerFailed::Cause>(record.cause);
  failure.culprit = record.culprit;
  failure.reporter = record.reporter;
  failure.missing.assign(record.missing, record.missing + std::min<std::size_t>(record.missing_count, engines::shm::FailureRecord::max_missing));
  failure.message.assign(record.message, std::min<std::size_t>(record.message_size, engines::shm::FailureRecord::max_message));
  return failure;
}

}  // namespace unisono::coordination
