#include "unisono/c/error.h"

#include <pthread.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "base/error_text.h"
#include "c/guarded.h"

namespace unisono::c {

WrongVersion::~WrongVersion() = default;

namespace {

struct LastError {
  unisono_status status = UNISONO_OK;
  std::string message = {};
  ErrorInfo info = {};
  std::vector<int> missing = {};
  unisono_cause cause = UNISONO_CAUSE_NONE;
};

// Raw, since nothing of the library is destroyed by a thread's end but through the key below.
thread_local LastError* of_thread = nullptr;
// There was not even the memory for a LastError.
thread_local bool lacks_memory = false;
constexpr const char* too_little_memory = "there is too little memory";

/// Deletes the thread's LastError when the thread ends. Where the system has no more keys it stays.
void delete_with_thread() {
  static const auto key = [] {
    pthread_key_t made{};
    const bool is_made = pthread_key_create(&made, [](void*) { delete std::exchange(of_thread, nullptr); }) == 0;
    return std::pair(made, is_made);
  }();
  if (key.second) static_cast<void>(pthread_setspecific(key.first, of_thread));
}

/// The one table from exceptions to codes; a derived type stands before its base.
constexpr struct {
  unisono_status status;
  bool (*fits)(const std::exception_ptr&);
} codes[] = {
    {UNISONO_INVALID_ARGUMENT, base::is_a<InvalidArgument>},
    {UNISONO_NOT_INITIALIZED, base::is_a<NotInitialized>},
    {UNISONO_ALREADY_INITIALIZED, base::is_a<AlreadyInitialized>},
    {UNISONO_NOT_MEMBER, base::is_a<NotMember>},
    {UNISONO_UNSUPPORTED, base::is_a<Unsupported>},
    {UNISONO_BACKEND_UNAVAILABLE, base::is_a<BackendUnavailable>},
    {UNISONO_MISMATCH, base::is_a<Mismatch>},
    {UNISONO_TIMEOUT, base::is_a<Timeout>},
    {UNISONO_PEER_FAILED, base::is_a<PeerFailed>},
    {UNISONO_PROTOCOL_ERROR, base::is_a<ProtocolError>},
    {UNISONO_OUT_OF_MEMORY, base::is_a<std::bad_alloc>},
    {UNISONO_WRONG_VERSION, base::is_a<WrongVersion>},
};

unisono_status status_of(const std::exception_ptr& error) {
  const auto* const known = std::find_if(std::begin(codes), std::end(codes), [&](const auto& row) { return row.fits(error); });
  return known == std::end(codes) ? UNISONO_ERROR : known->status;
}

unisono_cause as_c(PeerFailed::Cause cause) {
  switch (cause) {
    case PeerFailed::exited: return UNISONO_CAUSE_EXITED;
    case PeerFailed::killed: return UNISONO_CAUSE_KILLED;
    case PeerFailed::silent: return UNISONO_CAUSE_SILENT;
    case PeerFailed::aborted: return UNISONO_CAUSE_ABORTED;
    case PeerFailed::disconnected: return UNISONO_CAUSE_DISCONNECTED;
  }
  return UNISONO_CAUSE_NONE;
}

LastError described(const std::exception_ptr& error) {
  LastError last{.status = status_of(error), .message = base::what_of(error)};
  if (last.status == UNISONO_OUT_OF_MEMORY) last.message = too_little_memory;
  try {
    std::rethrow_exception(error);
  } catch (const Timeout& late) {
    last.info = late.info();
    last.missing = late.missing();
  } catch (const PeerFailed& failed) {
    last.info = failed.info();
    last.cause = as_c(failed.cause());
  } catch (const Error& other) {
    last.info = other.info();
  } catch (...) {  // NOLINT(bugprone-empty-catch): it has a text and nothing else
  }
  return last;
}

const LastError* known() { return lacks_memory ? nullptr : of_thread; }

const char* text(std::string ErrorInfo::*part) { return known() == nullptr ? "" : (known()->info.*part).c_str(); }

}  // namespace

unisono_status keep_error(const std::exception_ptr& error) noexcept {
  try {
    LastError last = described(error);
    if (of_thread == nullptr) {
      of_thread = new LastError;
      delete_with_thread();
    }
    *of_thread = std::move(last);
    lacks_memory = false;
    return of_thread->status;
  } catch (...) {
    lacks_memory = true;
    return UNISONO_OUT_OF_MEMORY;
  }
}

}  // namespace unisono::c

using unisono::ErrorInfo;
using unisono::c::known;

const char* unisono_error_message() {
  if (unisono::c::lacks_memory) return unisono::c::too_little_memory;
  return known() == nullptr ? "" : known()->message.c_str();
}
unisono_status unisono_error_status() {
  if (unisono::c::lacks_memory) return UNISONO_OUT_OF_MEMORY;
  return known() == nullptr ? UNISONO_OK : known()->status;
}
const char* unisono_error_operation() { return unisono::c::text(&ErrorInfo::operation); }
const char* unisono_error_group() { return unisono::c::text(&ErrorInfo::group); }
const char* unisono_error_hint() { return unisono::c::text(&ErrorInfo::hint); }
const char* unisono_error_host() { return unisono::c::text(&ErrorInfo::host); }
uint64_t unisono_error_sequence() { return known() == nullptr ? 0 : known()->info.sequence; }
int32_t unisono_error_rank() { return known() == nullptr ? -1 : known()->info.rank; }
int32_t unisono_error_culprit() { return known() == nullptr ? -1 : known()->info.culprit.value_or(-1); }
int32_t unisono_error_world_culprit() { return known() == nullptr ? -1 : known()->info.world_culprit; }
unisono_cause unisono_error_cause() { return known() == nullptr ? UNISONO_CAUSE_NONE : known()->cause; }

size_t unisono_error_missing(int32_t* ranks, size_t capacity) {
  if (known() == nullptr) return 0;
  const std::vector<int>& missing = known()->missing;
  if (ranks != nullptr) std::copy_n(missing.begin(), std::min(capacity, missing.size()), ranks);
  return missing.size();
}
