#include "torch/python/launcher_store.h"

#include <c10/util/Exception.h>

#include <algorithm>

#include "torch/python/store.h"
#include "unisono/error.h"

namespace unisono::libtorch {
namespace {

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
