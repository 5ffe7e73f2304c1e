#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "unisono/detail/standard.h"
#include "unisono/export.h"
#include "unisono/store.h"

namespace unisono {

/// A store whose keys lie in etcd 3.4 or newer, which all processes reach at the same URL.
///
/// ```cpp
/// EtcdStore store("etcd://10.0.0.1:2379,10.0.0.2:2379/train-17");   // etcds:// encrypts
/// ```
///
/// All keys are below the prefix at the end of the URL. The last process that closes its store removes
/// them. If all processes have died, they vanish after ten minutes. Calls go on at another endpoint if
/// one fails, and each change is made once, even if its answer was lost. A call throws Timeout, which
/// names the endpoints, if none answers before its deadline, and InvalidArgument with the reason if
/// etcd refuses it. docs/guide/environment.md has the variables of user, password and certificates. A
/// child of fork opens a store of its own.
class UNISONO_API EtcdStore final : public Store {
 public:
  /// Reaches etcd before the deadline.
  ///
  /// @throws InvalidArgument for a URL of another form
  /// @throws BackendUnavailable if unisono was built without libcurl
  explicit EtcdStore(std::string url, Milliseconds timeout = std::chrono::minutes(5));
  ~EtcdStore() override;
  void set(std::string_view key, std::string_view value) override;
  std::string get(std::string_view key, std::optional<Milliseconds> timeout = {}) override;
  std::optional<std::string> try_get(std::string_view key) override;
  std::int64_t add(std::string_view key, std::int64_t amount) override;
  void wait(std::span<const std::string> keys, std::optional<Milliseconds> timeout = {}) override;
  std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired) override;
  bool erase(std::string_view key) override;
  std::int64_t num_keys() override;
  /// Returns the URL as it was given.
  const std::string& url() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace unisono
