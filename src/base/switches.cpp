#include "base/switches.h"

#include <chrono>

namespace unisono {
namespace {

std::atomic<std::chrono::milliseconds> time_for_ballots{std::chrono::milliseconds(500)};
constexpr std::chrono::milliseconds usual_silence{30'000};
std::atomic<std::chrono::milliseconds> limit_of_silence{usual_silence};

}  // namespace

namespace base {
std::atomic<bool> compares_calls{true};
std::atomic<bool> records_calls{true};

void suggest_silence_limit(std::chrono::milliseconds limit) noexcept {
  std::chrono::milliseconds unset = usual_silence;
  limit_of_silence.compare_exchange_strong(unset, limit, std::memory_order_relaxed);
}
}  // namespace base

void detail::set_call_comparison(bool on) noexcept { base::compares_calls.store(on, std::memory_order_relaxed); }
void detail::set_call_recording(bool on) noexcept { base::records_calls.store(on, std::memory_order_relaxed); }
bool detail::call_comparison() noexcept { return base::compares_calls.load(std::memory_order_relaxed); }
void detail::set_ballot_time(std::chrono::milliseconds time) noexcept { time_for_ballots.store(time, std::memory_order_relaxed); }
std::chrono::milliseconds detail::ballot_time() noexcept { return time_for_ballots.load(std::memory_order_relaxed); }
void detail::set_silence_limit(std::chrono::milliseconds limit) noexcept { limit_of_silence.store(limit, std::memory_order_relaxed); }
std::chrono::milliseconds detail::silence_limit() noexcept { return limit_of_silence.load(std::memory_order_relaxed); }

}  // namespace unisono
