#include "proxied_store.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "base/environment.h"

namespace unisono::testing {
namespace {

constexpr std::string_view address_key = "link/address/";

class ProxiedStore final : public Store {
 public:
  explicit ProxiedStore(std::shared_ptr<Store> inner) : inner_(std::move(inner)) { set_timeout(inner_->timeout()); }

  void set(std::string_view key, std::string_view value) override {
    const auto at = key.find(address_key);
    if (at == std::string_view::npos) return inner_->set(key, value);
    inner_->set(key_of_listener(std::stoi(std::string(key.substr(at + address_key.size())))), fmt::format("{}\n{}", key, value));
  }
  std::string get(std::string_view key, std::optional<Milliseconds> timeout) override { return inner_->get(key, timeout); }
  std::optional<std::string> try_get(std::string_view key) override { return inner_->try_get(key); }
  std::int64_t add(std::string_view key, std::int64_t amount) override { return inner_->add(key, amount); }
  void wait(std::span<const std::string> keys, std::optional<Milliseconds> timeout) override { inner_->wait(keys, timeout); }
  std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired) override {
    return inner_->compare_set(key, expected, desired);
  }
  bool erase(std::string_view key) override { return inner_->erase(key); }
  std::int64_t num_keys() override { return inner_->num_keys(); }

 private:
  std::shared_ptr<Store> inner_;
};

}  // namespace

std::string key_of_listener(int rank) { return fmt::format("proxy/{}", rank); }

std::shared_ptr<Store> store_of_test() {
  const auto& environment = base::Environment::process();
  std::shared_ptr<Store> store;
  if (const auto file = environment.get("TEST_STORE_FILE")) {
    store = std::make_shared<FileStore>(*file);
  } else if (const auto port = environment.get_int("TEST_STORE_PORT")) {
    TcpStoreOptions options;
    options.token = environment.get("TEST_STORE_TOKEN").value_or("");
    store = std::make_shared<TcpStore>("127.0.0.1", static_cast<std::uint16_t>(*port), options);
  }
  if (!store || !environment.has("TEST_PROXY")) return store;
  return std::make_shared<ProxiedStore>(std::move(store));
}

}  // namespace unisono::testing
