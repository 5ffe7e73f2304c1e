#pragma once

#include <c10/util/intrusive_ptr.h>

#include <memory>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>
#include <vector>

#include "unisono/store.h"

namespace unisono::libtorch {

// A value as torch has it, and as we have it.
inline std::vector<std::uint8_t> bytes_of(std::string_view text) { return {text.begin(), text.end()}; }
inline std::string text_of(const std::vector<std::uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

/// Wraps the store of torch.distributed. Its errors pass unchanged, except that a wait that took too long throws Timeout, and a method that a store
/// written in Python lacks throws Unsupported. Such a store needs set, get, add, wait and check.
class TorchStore final : public Store {
 public:
  explicit TorchStore(c10::intrusive_ptr<c10d::Store> store) : store_(std::move(store)) {}

  void set(std::string_view key, std::string_view value) override;
  std::string get(std::string_view key, std::optional<Milliseconds> timeout = {}) override;
  std::optional<std::string> try_get(std::string_view key) override;
  std::int64_t add(std::string_view key, std::int64_t amount) override;
  void wait(std::span<const std::string> keys, std::optional<Milliseconds> timeout = {}) override;
  std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired) override;
  bool erase(std::string_view key) override;
  std::int64_t num_keys() override;

 private:
  bool has(const std::vector<std::string>& names);
  void wait_quietly(std::span<const std::string> keys, Milliseconds limit);

  c10::intrusive_ptr<c10d::Store> store_;
};

/// The store of `unisono run` for torch.distributed. Where it fails, and where a wait takes longer than the timeout, it throws DistStoreError.
class LauncherStore final : public c10d::Store {
 public:
  using Bytes = std::vector<std::uint8_t>;
  explicit LauncherStore(std::shared_ptr<unisono::Store> store) : store_(std::move(store)) {}

  using c10d::Store::compareSet;
  using c10d::Store::set;
  // Older versions of PyTorch lack it, so it is not marked override.
  c10::intrusive_ptr<c10d::Store> clone() { return c10::make_intrusive<LauncherStore>(*this); }  // NOLINT(modernize-use-override)
  void set(const std::string& key, const Bytes& value) override;
  Bytes compareSet(const std::string& key, const Bytes& expected, const Bytes& desired) override;
  Bytes get(const std::string& key) override;
  std::int64_t add(const std::string& key, std::int64_t amount) override;
  bool deleteKey(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  std::int64_t getNumKeys() override;
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override;

 private:
  std::shared_ptr<unisono::Store> store_;
};

}  // namespace unisono::libtorch
