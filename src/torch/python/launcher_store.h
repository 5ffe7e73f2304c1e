#pragma once

#include <memory>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>

#include "unisono/store.h"

namespace unisono::libtorch {

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
