#include "base/switches.h"

#include <bit>
#include <map>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>

#include "unisono/detail/place.h"
#include "unisono/interruption.h"

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

namespace {
std::atomic<InterruptionCheck> current{nullptr};
}  // namespace

InterruptionCheck set_interruption_check(InterruptionCheck check) noexcept { return current.exchange(check); }

bool base::has_interruption_check() noexcept { return current.load(std::memory_order_relaxed) != nullptr; }

void base::check_interruption() {
  if (const InterruptionCheck check = current.load(std::memory_order_acquire)) check();
}

}  // namespace unisono

// The places of calls whose sources are not C++.
namespace unisono::detail {
namespace {

/// The data that a std::source_location points to. Compilers write it, so its layout is the same for all of them and for both standard libraries;
/// only its members are private.
struct Text {
  const char* file;
  const char* function;
  std::uint32_t line;
  std::uint32_t column;
};
static_assert(sizeof(std::source_location) == sizeof(const Text*) && std::is_trivially_copyable_v<std::source_location>);

constexpr std::size_t most_places = 65536;

/// All places that have been named. They stay, since errors and records refer to them.
struct Places {
  std::mutex mutex;
  std::map<std::pair<std::string, std::uint32_t>, Text> all;
  std::map<std::string, const char*, std::less<>> files;  // each file has one name, by whose address the recorder knows it
};

std::atomic<PlaceFinder> of_caller{nullptr};

}  // namespace

std::source_location place_in(std::string_view file, std::uint32_t line) {
  static auto& places = *new Places;  // threads may call when static objects are destroyed
  if (line == 0) return {};
  const std::lock_guard lock(places.mutex);
  const auto known = places.all.find({std::string(file), line});
  if (known != places.all.end()) return std::bit_cast<std::source_location>(static_cast<const Text*>(&known->second));
  if (places.all.size() == most_places) return {};
  const auto named = places.files.try_emplace(std::string(file), nullptr).first;
  named->second = named->first.c_str();
  const auto added = places.all.emplace(std::pair(named->first, line), Text{named->second, "", line, 0}).first;
  return std::bit_cast<std::source_location>(static_cast<const Text*>(&added->second));
}

void set_place_finder(PlaceFinder finder) noexcept { of_caller.store(finder); }

std::source_location place_of_caller() noexcept {
  const PlaceFinder finder = of_caller.load(std::memory_order_acquire);
  return finder == nullptr ? std::source_location() : finder();
}

}  // namespace unisono::detail
