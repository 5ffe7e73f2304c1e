#include "store/etcd.h"

#include "unisono/error.h"
#include "unisono/etcd_store.h"

namespace unisono {

struct EtcdStore::State {
  std::string url;
  std::shared_ptr<store::etcd::KeysInEtcd> keys;
  /// The deadlines of this object are those of the calls.
  store::etcd::KeysInEtcd& with(Milliseconds timeout) const {
    keys->set_timeout(timeout);
    return *keys;
  }
};

EtcdStore::EtcdStore(std::string url, Milliseconds timeout) : state_(std::make_unique<State>()) {
  set_timeout(timeout);
  state_->keys = store::etcd::open_etcd(url, base::Environment::process(), base::Deadline(timeout));
  state_->url = std::move(url);
}
EtcdStore::~EtcdStore() = default;

void EtcdStore::set(std::string_view key, std::string_view value) { state_->with(timeout()).set(key, value); }
std::string EtcdStore::get(std::string_view key, std::optional<Milliseconds> timeout) {
  return state_->keys->get(key, timeout.value_or(this->timeout()));
}
std::optional<std::string> EtcdStore::try_get(std::string_view key) { return state_->with(timeout()).try_get(key); }
std::int64_t EtcdStore::add(std::string_view key, std::int64_t amount) { return state_->with(timeout()).add(key, amount); }
void EtcdStore::wait(std::span<const std::string> keys, std::optional<Milliseconds> timeout) {
  state_->keys->wait(keys, timeout.value_or(this->timeout()));
}
std::string EtcdStore::compare_set(std::string_view key, std::string_view expected, std::string_view desired) {
  return state_->with(timeout()).compare_set(key, expected, desired);
}
bool EtcdStore::erase(std::string_view key) { return state_->with(timeout()).erase(key); }
std::int64_t EtcdStore::num_keys() { return state_->with(timeout()).num_keys(); }
const std::string& EtcdStore::url() const noexcept { return state_->url; }

}  // namespace unisono

#ifdef UNISONO_WITHOUT_ETCD
std::shared_ptr<unisono::store::etcd::KeysInEtcd> unisono::store::etcd::open_etcd(std::string_view url, const base::Environment&,
                                                                                  const base::Deadline&) {
  throw BackendUnavailable("the store \"" + std::string(url) + "\": this build of unisono has no stores of etcd",
                           {.hint = "it was configured with -DUNISONO_ETCD=OFF"});
}
#endif
