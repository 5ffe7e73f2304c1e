#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "base/deadline.h"
#include "store/batch.h"
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

}  // namespace unisono::store
