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

namespace store {
class Prefixed;
}

/// A small key-value store through which processes meet. Values are bytes.
///
/// Every call has a deadline: the argument `timeout` if it is given, and otherwise the store's own
/// (`set_timeout`), which is 5 minutes at first. A call that passes it throws Timeout, naming the keys
/// that it waits for. Any thread may call.
///
/// ```cpp
/// TcpStore store("127.0.0.1", 29500, {.is_server = rank == 0});
/// store.set("address", mine);
/// const std::string theirs = store.get("address");   // waits until the key exists
/// ```
class UNISONO_API Store {
 public:
  /// The unit of all deadlines.
  using Milliseconds = std::chrono::milliseconds;

  virtual ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  /// Sets the value of a key, whether or not it exists.
  virtual void set(std::string_view key, std::string_view value) = 0;
  /// Waits until the key exists, then returns its value.
  virtual std::string get(std::string_view key, std::optional<Milliseconds> timeout = {}) = 0;
  /// Returns the value if the key exists now.
  virtual std::optional<std::string> try_get(std::string_view key) = 0;
  /// Adds to a decimal counter, which is 0 if the key is new, and returns the sum. InvalidArgument if
  /// the value is not a number.
  virtual std::int64_t add(std::string_view key, std::int64_t amount) = 0;
  /// Waits until all keys exist.
  virtual void wait(std::span<const std::string> keys, std::optional<Milliseconds> timeout = {}) = 0;
  /// Sets `desired` if the value is `expected`, in one step that nobody can interrupt, and returns
  /// the value after the call. An empty `expected` also matches a key that does not exist.
  virtual std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired) = 0;
  /// Removes a key and tells whether it existed.
  virtual bool erase(std::string_view key) = 0;
  /// Returns the number of keys.
  virtual std::int64_t num_keys() = 0;

  /// Returns the deadline of calls that give none.
  Milliseconds timeout() const noexcept;
  /// Sets the deadline of calls that give none.
  void set_timeout(Milliseconds timeout) noexcept;

 protected:
  Store() = default;

 private:
  mutable std::int64_t timeout_ms_ = 300'000;  // atomic: any thread may read and set it
};

/// A store within one process, for ranks that are threads, and for tests.
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

/// A store in a file that all processes reach: on one host, or on a shared file system with working
/// fcntl locks.
///
/// The file is a log to which every change is appended. It is created if it is absent, and stays
/// until somebody removes it.
class UNISONO_API FileStore final : public Store {
 public:
  /// Opens the file, or creates it.
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
  /// Returns the path as it was given.
  const std::string& path() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The options of a TcpStore.
struct TcpStoreOptions {
  /// Whether this process holds the data. A single process of the job does.
  bool is_server = false;
  /// The deadline of connecting, and of the store's calls.
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
  /// The job's secret; UNISONO_TOKEN unless it is set. A loopback address needs none. Any other
  /// address needs one, or an explicit "none".
  std::optional<std::string> token = {};
  /// For the server: a socket that is bound and listens already, at the address and the port that
  /// are given (port 0: at any). The store takes it over and closes it, also if making the store
  /// throws; InvalidArgument for any other descriptor. -1: none.
  int listen_fd = -1;
};

/// A store that one process serves and the others reach over TCP.
///
/// The server listens on exactly the given address, never on all addresses of the host. Clients
/// wait for it until the deadline. Connections are encrypted if UNISONO_TLS says so, which the
/// server and all clients must agree on; the key is derived from the token unless there are
/// certificates (docs/guide/environment.md).
class UNISONO_API TcpStore final : public Store {
 public:
  /// Serves at this address, or connects to it.
  ///
  /// @param port 0 lets the server take any free port, which `port()` tells
  /// @throws InvalidArgument if the address is not loopback and there is no token
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
  /// Returns the address as it was given.
  const std::string& host() const noexcept;
  /// Returns the port on which the server listens.
  std::uint16_t port() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Another store seen under a prefix, so that several users share it without meeting. It keeps the
/// inner store alive.
class UNISONO_API PrefixStore final : public Store {
 public:
  /// Puts "prefix/" before every key, and takes over the deadline of the inner store.
  PrefixStore(std::string prefix, std::shared_ptr<Store> inner);
  ~PrefixStore() override;
  void set(std::string_view key, std::string_view value) override;
  std::string get(std::string_view key, std::optional<Milliseconds> timeout = {}) override;
  std::optional<std::string> try_get(std::string_view key) override;
  std::int64_t add(std::string_view key, std::int64_t amount) override;
  void wait(std::span<const std::string> keys, std::optional<Milliseconds> timeout = {}) override;
  std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired) override;
  bool erase(std::string_view key) override;
  /// Returns the number of keys of the inner store, with or without the prefix.
  std::int64_t num_keys() override;

 private:
  friend class store::Prefixed;
  std::string prefix_;
  std::shared_ptr<Store> inner_;
};

}  // namespace unisono
