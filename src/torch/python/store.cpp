#include "torch/python/store.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <thread>

#include "unisono/error.h"

namespace unisono::libtorch {
namespace {

std::vector<std::uint8_t> bytes_of(std::string_view text) { return {text.begin(), text.end()}; }
std::string text_of(const std::vector<std::uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

/// torch writes two lines to standard error for each wait that times out. Waits up to this limit, which come in rows, poll the store instead.
constexpr auto quiet_limit = std::chrono::milliseconds(1000);
constexpr auto longest_pause = std::chrono::milliseconds(16);

[[noreturn]] void throw_missing(std::span<const std::string> keys, std::chrono::milliseconds limit) {
  throw Timeout(fmt::format("nobody set {} in torch's store within {} ms", fmt::join(keys, ", "), limit.count()), {.operation = "wait"});
}

}  // namespace

void TorchStore::set(std::string_view key, std::string_view value) { store_->set(std::string(key), bytes_of(value)); }

std::string TorchStore::get(std::string_view key, std::optional<Milliseconds> timeout) {
  const std::string name(key);
  wait(std::span(&name, 1), timeout);
  return text_of(store_->get(name));
}

std::optional<std::string> TorchStore::try_get(std::string_view key) {
  const std::string name(key);
  if (!store_->check({name})) return std::nullopt;
  return text_of(store_->get(name));
}

std::int64_t TorchStore::add(std::string_view key, std::int64_t amount) { return store_->add(std::string(key), amount); }

void TorchStore::wait(std::span<const std::string> keys, std::optional<Milliseconds> timeout_given) {
  if (timeout_given && *timeout_given < quiet_limit) return wait_quietly(keys, *timeout_given);
  // A store of torch takes zero for no limit.
  const Milliseconds limit = std::max(timeout_given.value_or(timeout()), Milliseconds(1));
  const auto begun = std::chrono::steady_clock::now();
  try {
    store_->wait({keys.begin(), keys.end()}, limit);
  } catch (const c10::Error&) {
    // Torch's stores have one error for everything, so the clock tells a timeout from other errors.
    if (std::chrono::steady_clock::now() - begun < limit) throw;
    throw_missing(keys, limit);
  }
}

void TorchStore::wait_quietly(std::span<const std::string> keys, Milliseconds limit) {
  const std::vector<std::string> names(keys.begin(), keys.end());
  const auto end = std::chrono::steady_clock::now() + limit;
  for (auto pause = Milliseconds(1); !store_->check(names); pause = std::min(2 * pause, longest_pause)) {
    if (std::chrono::steady_clock::now() >= end) throw_missing(keys, limit);
    std::this_thread::sleep_for(pause);
  }
}

std::string TorchStore::compare_set(std::string_view key, std::string_view expected, std::string_view desired) {
  return text_of(store_->compareSet(std::string(key), bytes_of(expected), bytes_of(desired)));
}

bool TorchStore::erase(std::string_view key) { return store_->deleteKey(std::string(key)); }

std::int64_t TorchStore::num_keys() { return store_->getNumKeys(); }

}  // namespace unisono::libtorch
