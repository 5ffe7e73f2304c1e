#include "torch/python/store.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <thread>

#include "unisono/error.h"

namespace unisono::libtorch {
namespace {

/// torch writes two lines to standard error for each wait that times out. Waits up to this limit, which come in rows, poll the store instead.
constexpr auto quiet_limit = std::chrono::milliseconds(1000);
constexpr auto longest_pause = std::chrono::milliseconds(16);

[[noreturn]] void throw_missing(std::span<const std::string> keys, std::chrono::milliseconds limit) {
  throw Timeout(fmt::format("nobody set {} in torch's store within {} ms", fmt::join(keys, ", "), limit.count()), {.operation = "wait"});
}

/// Returns true for the errors by which PyTorch says that a store has no such method: one of C++, or one that is written in Python (two errors).
bool is_of_missing_method(const std::exception& error) {
  const std::string_view text = error.what();
  const auto says = [&](std::string_view words) { return text.find(words) != text.npos; };
  return dynamic_cast<const c10::NotImplementedError*>(&error) != nullptr || says("Tried to call pure virtual function") ||
         (says("INTERNAL ASSERT FAILED") && says("Not implemented."));
}

/// Calls a method of the store, which it may lack.
template <class Call>
auto asked(const char* method, const Call& call) {
  try {
    return call();
  } catch (const std::exception& error) {
    if (!is_of_missing_method(error)) throw;
    throw Unsupported(fmt::format("the given store has no method {}", method), {.hint = "a store needs set, get, add, wait and check"});
  }
}

using Bytes = LauncherStore::Bytes;

template <class Call>
auto with_store_errors(const Call& call) {
  try {
    return call();
  } catch (const Error& error) {
    C10_THROW_ERROR(DistStoreError, error.what());
  }
}

}  // namespace

void TorchStore::set(std::string_view key, std::string_view value) {
  asked("set", [&] { store_->set(std::string(key), bytes_of(value)); });
}

std::string TorchStore::get(std::string_view key, std::optional<Milliseconds> timeout) {
  const std::string name(key);
  wait(std::span(&name, 1), timeout);
  return asked("get", [&] { return text_of(store_->get(name)); });
}

bool TorchStore::has(const std::vector<std::string>& names) {
  return asked("check", [&] { return store_->check(names); });
}

std::optional<std::string> TorchStore::try_get(std::string_view key) {
  const std::string name(key);
  if (!has({name})) return std::nullopt;
  return asked("get", [&] { return text_of(store_->get(name)); });
}

std::int64_t TorchStore::add(std::string_view key, std::int64_t amount) {
  return asked("add", [&] { return store_->add(std::string(key), amount); });
}

void TorchStore::wait(std::span<const std::string> keys, std::optional<Milliseconds> timeout_given) {
  if (timeout_given && *timeout_given < quiet_limit) return wait_quietly(keys, *timeout_given);
  // A store of torch takes zero for no limit.
  const Milliseconds limit = std::max(timeout_given.value_or(timeout()), Milliseconds(1));
  const auto begun = std::chrono::steady_clock::now();
  try {
    asked("wait", [&] { store_->wait({keys.begin(), keys.end()}, limit); });
  } catch (const std::exception&) {
    // Torch's stores have one error for everything, and those that are written in Python any, so the clock tells a timeout from other errors.
    if (std::chrono::steady_clock::now() - begun < limit) throw;
    throw_missing(keys, limit);
  }
}

void TorchStore::wait_quietly(std::span<const std::string> keys, Milliseconds limit) {
  const std::vector<std::string> names(keys.begin(), keys.end());
  const auto end = std::chrono::steady_clock::now() + limit;
  for (auto pause = Milliseconds(1); !has(names); pause = std::min(2 * pause, longest_pause)) {
    if (std::chrono::steady_clock::now() >= end) throw_missing(keys, limit);
    std::this_thread::sleep_for(pause);
  }
}

std::string TorchStore::compare_set(std::string_view key, std::string_view expected, std::string_view desired) {
  const std::string name(key);
  try {
    return asked("compare_set", [&] { return text_of(store_->compareSet(name, bytes_of(expected), bytes_of(desired))); });
  } catch (const Unsupported&) {
    if (!expected.empty()) throw;
  }
  // The first one to come sets a new key, and the others wait for it. A store without a method is found out before anybody waits.
  set(name + "/offer", desired);
  if (add(name + "/first", 1) == 1) set(name, desired);
  return get(name);
}

bool TorchStore::erase(std::string_view key) {
  try {
    return asked("delete_key", [&] { return store_->deleteKey(std::string(key)); });
  } catch (const Unsupported&) {  // the key stays, which harms nobody
    return false;
  }
}

std::int64_t TorchStore::num_keys() {
  return asked("num_keys", [&] { return store_->getNumKeys(); });
}

void LauncherStore::set(const std::string& key, const Bytes& value) {
  with_store_errors([&] { store_->set(key, text_of(value)); });
}

Bytes LauncherStore::compareSet(const std::string& key, const Bytes& expected, const Bytes& desired) {
  return with_store_errors([&] { return bytes_of(store_->compare_set(key, text_of(expected), text_of(desired))); });
}

Bytes LauncherStore::get(const std::string& key) {
  return with_store_errors([&] { return bytes_of(store_->get(key, timeout_)); });
}

std::int64_t LauncherStore::add(const std::string& key, std::int64_t amount) {
  return with_store_errors([&] { return store_->add(key, amount); });
}

bool LauncherStore::deleteKey(const std::string& key) {
  return with_store_errors([&] { return store_->erase(key); });
}

bool LauncherStore::check(const std::vector<std::string>& keys) {
  return with_store_errors([&] { return std::ranges::all_of(keys, [&](const std::string& key) { return store_->try_get(key).has_value(); }); });
}

std::int64_t LauncherStore::getNumKeys() {
  return with_store_errors([&] { return store_->num_keys(); });
}

void LauncherStore::wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) {
  with_store_errors([&] { store_->wait(keys, timeout == kNoTimeout ? timeout_ : timeout); });
}

}  // namespace unisono::libtorch
