#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "base/socket.h"
#include "store/server.h"
#include "store/wire.h"
#include "unisono/store.h"

namespace unisono::store {

/// The client of a StoreServer: one connection, on which any number of threads ask at once. Every request carries a number; the thread that needs
/// an answer first reads for all, the others sleep until theirs is in. Where the connection breaks, every call throws PeerFailed (disconnected).
class Client final : public Store {
 public:
  /// `place` is how messages call the store: "the store at 127.0.0.1:29500". `buffered` was received already; `own_server` lives as long as this.
  Client(base::FileDescriptor connected, std::string place, FrameBuffer buffered = {}, std::unique_ptr<StoreServer> own_server = {});
  ~Client() override;

  void set(std::string_view key, std::string_view value) override;
  std::string get(std::string_view key, std::optional<Milliseconds> timeout = {}) override;
  std::optional<std::string> try_get(std::string_view key) override;
  std::int64_t add(std::string_view key, std::int64_t amount) override;
  void wait(std::span<const std::string> keys, std::optional<Milliseconds> timeout = {}) override;
  std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired) override;
  bool erase(std::string_view key) override;
  std::int64_t num_keys() override;

  /// The greeting has not been exchanged yet (a connection handed over): send ours, expect theirs before the first answer.
  void greet();
  StoreServer* own_server() const { return server_.get(); }
  /// What the server sets, where nobody has, as soon as this connection ends, however it ends. The last will counts; an empty one takes it back.
  void leave_will(const std::vector<std::pair<std::string, std::string>>& will);
  /// Ends the connection: calls under way and later ones, of all threads, throw PeerFailed.
  void hang_up() const;
  /// The addresses of a connection to a store on TCP: this side's address, from which it is reached, and the store's, which are the same where this
  /// process serves it.
  struct Addresses {
    base::SocketAddress own, store;
  };
  const std::optional<Addresses>& addresses() const { return addresses_; }
  void set_addresses(Addresses addresses) { addresses_ = std::move(addresses); }

 private:
  struct Answer {
    Status status = Status::ok;
    std::string fields;
  };
  Writer request(Op op) { return Writer(op, next_.fetch_add(1, std::memory_order_relaxed)); }
  Answer ask(Writer request, const base::Deadline& deadline, std::span<const std::string> awaited);
  Answer ask(Writer request) { return ask(std::move(request), base::Deadline(timeout()), {}); }
  Answer await(Writer request, Milliseconds timeout, std::span<const std::string> keys);
  void send(const std::string& frame, const base::Deadline& deadline);
  void read_some(const base::Deadline& deadline, std::unique_lock<std::mutex>& lock);
  void dispatch();
  void check_greeting();
  void check_process() const;
  void break_off(std::exception_ptr reason);
  [[noreturn]] void throw_gone() const;

  std::unique_ptr<StoreServer> server_;
  const base::FileDescriptor fd_;
  const std::string place_;
  const int pid_;
  std::optional<Addresses> addresses_;

  std::atomic<std::uint64_t> next_{1};
  std::mutex sending_;
  std::mutex mutex_;  ///< of all below
  std::condition_variable arrived_;
  FrameBuffer in_;
  std::map<std::uint64_t, std::optional<Answer>> asked_;
  bool someone_reads_ = false;
  bool greeting_due_ = false;
  std::exception_ptr broken_;
};

/// Over one end of a connected stream that the other side has given to `StoreServer::adopt`. Takes no time: the server may start later.
std::shared_ptr<Store> connect_fd(base::FileDescriptor connected);

struct ConnectOptions {
  std::string token = {};
  std::string job_tag = {};
  bool strangers_expected = false;  ///< others may listen at these addresses: go on looking instead of failing at the first
};
/// Tries the addresses in turn, again and again with growing pauses, until one answers as our store. Throws Timeout with the last reasons where
/// none does before the deadline, and ProtocolError at once where what answers speaks something else, another version, or wants another token.
std::shared_ptr<Client> connect_tcp(const std::vector<base::SocketAddress>& addresses, const std::string& place, const ConnectOptions& options,
                                    const base::Deadline& deadline);
/// One attempt at one address: the client, or why not (empty client, the reason as text).
struct Attempt {
  std::shared_ptr<Client> client;
  std::string reason;
  bool final = false;  ///< trying again will not help
};
Attempt try_connect_store(const base::SocketAddress& address, const std::string& place, const ConnectOptions& options,
                          const base::Deadline& deadline);

}  // namespace unisono::store
