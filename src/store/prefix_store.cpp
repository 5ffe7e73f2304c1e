#include "unisono/error.h"
#include "unisono/store.h"

namespace unisono {

PrefixStore::PrefixStore(std::string prefix, std::shared_ptr<Store> inner) : prefix_(std::move(prefix) + "/"), inner_(std::move(inner)) {
  if (inner_ == nullptr) throw InvalidArgument("a PrefixStore was given no store");
  set_timeout(inner_->timeout());
}
PrefixStore::~PrefixStore() = default;

void PrefixStore::set(std::string_view key, std::string_view value) { inner_->set(prefix_ + std::string(key), value); }
std::string PrefixStore::get(std::string_view key, std::optional<Milliseconds> timeout) {
  return inner_->get(prefix_ + std::string(key), timeout.value_or(this->timeout()));
}
std::optional<std::string> PrefixStore::try_get(std::string_view key) { return inner_->try_get(prefix_ + std::string(key)); }
std::int64_t PrefixStore::add(std::string_view key, std::int64_t amount) { return inner_->add(prefix_ + std::string(key), amount); }

void PrefixStore::wait(std::span<const std::string> keys, std::optional<Milliseconds> timeout) {
  std::vector<std::string> whole;
  whole.reserve(keys.size());
  for (const std::string& key : keys) whole.push_back(prefix_ + key);
  inner_->wait(whole, timeout.value_or(this->timeout()));
}

std::string PrefixStore::compare_set(std::string_view key, std::string_view expected, std::string_view desired) {
  return inner_->compare_set(prefix_ + std::string(key), expected, desired);
}
bool PrefixStore::erase(std::string_view key) { return inner_->erase(prefix_ + std::string(key)); }
std::int64_t PrefixStore::num_keys() { return inner_->num_keys(); }

}  // namespace unisono
