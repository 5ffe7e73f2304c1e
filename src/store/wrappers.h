#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "store/requests.h"
#include "unisono/store.h"

namespace unisono::store {

/// A store that calls `look` during a wait, after 100 ms first and then less often, up to every second; `look` throws where the awaited keys will not
/// come any more.
class WatchedStore final : public Store, public BatchedReads {
 public:
  WatchedStore(std::shared_ptr<Store> inner, std::function<void()> look);
  ~WatchedStore() override;

  void set(std::string_view key, std::string_view value) override { inner_->set(key, value); }
  std::string get(std::string_view key, std::optional<Milliseconds> timeout = {}) override;
  std::optional<std::string> try_get(std::string_view key) override;
  std::vector<std::optional<std::string>> try_get_all(std::span<const std::string> keys) override;
  std::int64_t add(std::string_view key, std::int64_t amount) override { return inner_->add(key, amount); }
  void wait(std::span<const std::string> keys, std::optional<Milliseconds> timeout = {}) override;
  std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired) override {
    return inner_->compare_set(key, expected, desired);
  }
  bool erase(std::string_view key) override { return inner_->erase(key); }
  std::int64_t num_keys() override { return inner_->num_keys(); }

 private:
  template <class Attempt>
  auto in_slices(std::span<const std::string> keys, std::optional<Milliseconds> timeout, Attempt&& attempt);
  void look();

  std::shared_ptr<Store> inner_;
  std::function<void()> look_;
  std::mutex mutex_;
  base::Clock::time_point next_look_{};
};

/// A store that notes the keys which this process makes in it. They may be erased once no other process reads them any more: by `erase_own`, or in
/// the inner store by whoever gets them when this one ends.
class OwnKeysStore final : public Store, public BatchedReads {
 public:
  using AtEnd = std::function<void(std::vector<std::string>&& keys)>;
  explicit OwnKeysStore(std::shared_ptr<Store> inner, AtEnd at_end = {});
  ~OwnKeysStore() override;

  void set(std::string_view key, std::string_view value) override;
  std::string get(std::string_view key, std::optional<Milliseconds> timeout = {}) override {
    return inner_->get(key, timeout.value_or(this->timeout()));
  }
  std::optional<std::string> try_get(std::string_view key) override { return inner_->try_get(key); }
  std::vector<std::optional<std::string>> try_get_all(std::span<const std::string> keys) override { return store::try_get_all(*inner_, keys); }
  std::int64_t add(std::string_view key, std::int64_t amount) override;
  void wait(std::span<const std::string> keys, std::optional<Milliseconds> timeout = {}) override {
    inner_->wait(keys, timeout.value_or(this->timeout()));
  }
  std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired) override;
  bool erase(std::string_view key) override;
  std::int64_t num_keys() override { return inner_->num_keys(); }

  /// Erases the keys that this process has made.
  void erase_own();

 private:
  void note(std::string_view key);

  std::shared_ptr<Store> inner_;
  AtEnd at_end_;
  std::mutex mutex_;
  std::set<std::string, std::less<>> keys_;
};

}  // namespace unisono::store
