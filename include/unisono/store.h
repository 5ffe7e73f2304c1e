#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/detail/standard.h"
#include "unisono/export.h"

namespace unisono {

/// A small key-value store through which processes meet. Values are bytes. Every call has a deadline: `timeout` where it is given, the
/// store's own (`set_timeout`, 5 minutes at first) elsewhere; a call that passes it throws Timeout naming the keys it waits for. Any thread may call.
class UNISONO_API Store {
 public:
  using Milliseconds = std::chrono::milliseconds;

  virtual ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  virtual void set(std::string_view key, std::string_view value) = 0;
  /// Waits until the key exists, then returns its value.
  virtual std::string get(std::string_view key, std::optional<Milliseconds> timeout = {}) = 0;
  /// The value if the key exists now.
  virtual std::optional<std::string> try_get(std::string_view key) = 0;
  /// Adds to a decimal counter (0 where the key is new) and returns the sum. InvalidArgument if the value is no number.
  virtual std::int64_t add(std::string_view key, std::int64_t amount) = 0;
  /// Waits until all keys exist.
  virtual void wait(std::span<const std::string> keys, std::optional<Milliseconds> timeout = {}) = 0;
  /// Sets `desired` if the value is `expected` (an empty `expected` also matches a key that does not exist); returns the value after the call.
  virtual std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired) = 0;
  /// True if there was such a key.
  virtual bool erase(std::string_view key) = 0;
  virtual std::int64_t num_keys() = 0;

  Milliseconds timeout() const noexcept;
  void set_timeout(Milliseconds timeout) noexcept;

 protected:
  Store() = default;

 private:
  mutable std::int64_t timeout_ms_ = 300'000;  // atomic: any thread may read and set it
};

/// Within one process, for ranks that are threads, and for tests.
class UNISONO_API MemoryStore final : public Store {
 public:
  MemoryStore();
  ~MemoryStore() override;
  void set(std::string_view key, std::string_view value) override;
  std::string get(std::string_view key, std::optional<Milliseconds> timeout = {}) override;
  std::optional<std::string> try_get(std::string_view key) override;
  std::int64_t add(std::string_view key, std::int64_t amount) override;
  void wait(std::span<const std::string> keys, std::optional<Milliseconds> timeout = {}) override;
  std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired) override;
  bool erase(std::string_view key) override;
  std::int64_t num_keys() override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// In a file that all processes reach (one host, or a shared file system with working fcntl locks). The file is an append-only log; it is
/// created if absent and stays until somebody removes it.
class UNISONO_API FileStore final : public Store {
 public:
  explicit FileStore(std::string path);
  ~FileStore() override;
  void set(std::string_view key, std::string_view value) override;
  std::string get(std::string_view key, std::optional<Milliseconds> timeout = {}) override;
  std::optional<std::string> try_get(std::string_view key) override;
  std::int64_t add(std::string_view key, std::int64_t amount) override;
  void wait(std::span<const std::string> keys, std::optional<Milliseconds> timeout = {}) override;
  std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired) override;
  bool erase(std::string_view key) override;
  std::int64_t num_keys() override;
  const std::string& path() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct TcpStoreOptions {
  bool is_server = false;                                       ///< this process holds the data
  std::chrono::milliseconds timeout = std::chrono::minutes(5);  ///< of connecting, and the store's default
  /// The job's secret. Unset: UNISONO_TOKEN. A loopback address needs none; any other address needs one, or "none" said aloud.
  std::optional<std::string> token = {};
  int listen_fd = -1;  ///< server only: an already bound, listening socket to adopt; it is closed with the store
};

/// Over TCP; one process is the server. It listens on exactly the given address (port 0: any free one, see `port`), never on all of them.
class UNISONO_API TcpStore final : public Store {
 public:
  TcpStore(std::string host, std::uint16_t port, TcpStoreOptions options = {});
  ~TcpStore() override;
  void set(std::string_view key, std::string_view value) override;
  std::string get(std::string_view key, std::optional<Milliseconds> timeout = {}) override;
  std::optional<std::string> try_get(std::string_view key) override;
  std::int64_t add(std::string_view key, std::int64_t amount) override;
  void wait(std::span<const std::string> keys, std::optional<Milliseconds> timeout = {}) override;
  std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired) override;
  bool erase(std::string_view key) override;
  std::int64_t num_keys() override;
  const std::string& host() const noexcept;
  std::uint16_t port() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Another store seen under a prefix, so that several users share one without meeting. Keeps the inner store alive.
class UNISONO_API PrefixStore final : public Store {
 public:
  PrefixStore(std::string prefix, std::shared_ptr<Store> inner);
  ~PrefixStore() override;
  void set(std::string_view key, std::string_view value) override;
  std::string get(std::string_view key, std::optional<Milliseconds> timeout = {}) override;
  std::optional<std::string> try_get(std::string_view key) override;
  std::int64_t add(std::string_view key, std::int64_t amount) override;
  void wait(std::span<const std::string> keys, std::optional<Milliseconds> timeout = {}) override;
  std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired) override;
  bool erase(std::string_view key) override;
  std::int64_t num_keys() override;  ///< of the inner store, prefix or not

 private:
  std::string prefix_;
  std::shared_ptr<Store> inner_;
};

}  // namespace unisono
