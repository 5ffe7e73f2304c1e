#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "base/secret.h"
#include "base/socket.h"
#include "base/tls_library.h"
#include "store/requests.h"
#include "store/server.h"
#include "store/wire.h"
#include "unisono/store.h"

namespace unisono::store {

/// The client of a StoreServer: one connection, on which any number of threads make requests at once. Every request has a number. One of the threads
/// that wait reads for all; the others sleep until their answers have arrived. Once the connection is broken, every call throws PeerFailed
/// (disconnected).
class Client final : public Store, public BatchedReads {
 public:
  /// `place` names the store in messages: "the store at 127.0.0.1:29500". `buffered` was received already; `own_server` lives as long as this.
  Client(base::FileDescriptor connected, std::string place, FrameBuffer buffered = {}, std::unique_ptr<StoreServer> own_server = {},
         std::unique_ptr<base::TlsConnection> tls = {});
  ~Client() override;

  void set(std::string_view key, std::string_view value) override;
  std::string get(std::string_view key, std::optional<Milliseconds> timeout = {}) override;
  std::optional<std::string> try_get(std::string_view key) override;
  std::vector<std::optional<std::string>> try_get_all(std::span<const std::string> keys) override;
  std::int64_t add(std::string_view key, std::int64_t amount) override;
  void wait(std::span<const std::string> keys, std::optional<Milliseconds> timeout = {}) override;
  std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired) override;
  bool erase(std::string_view key) override;
  std::int64_t num_keys() override;

  /// The frames have codes under these keys from now on; called before the first request.
  void use_codes(const base::FrameKeys& keys);
  /// Sends the greeting on a connection that was handed over, and expects the server's before the first answer.
  void send_greeting();
  StoreServer* own_server() const { return server_.get(); }
  /// Makes the server set keys as soon as this connection ends, however it ends, unless they are set by then. The last will counts; an empty one
  /// cancels it.
  void leave_will(const std::vector<std::pair<std::string, std::string>>& will);
  /// Has the server hand all later requests of this connection on to the store of the job (relay.h). Returns false if it does not know one.
  bool ask_for_relay();
  /// Sends requests with numbers that the caller has chosen, all together; their answers go to `take_answers`.
  void send_requests(std::vector<std::string> frames);
  /// Hands out the answers to requests of `send_requests`, until the connection is broken. Throws why it is.
  void take_answers(std::function<void(std::string_view answer)> take);
  /// Ends the connection: current and later calls of all threads throw PeerFailed.
  void hang_up() const;
  /// The addresses of a TCP connection to a store: this side's, at which it can be reached, and the store's. They are equal where this process serves
  /// the store.
  struct Addresses {
    base::SocketAddress own, store;
  };
  const std::optional<Addresses>& addresses() const { return addresses_; }
  void set_addresses(const Addresses& addresses) { addresses_ = addresses; }

 private:
  struct Answer {
    Status status = Status::ok;
    std::string fields;
    /// Returns the first field, which may be a secret, and leaves none here.
    std::string take_text() {
      std::string text(Reader(fields).text());
      base::wipe(fields);
      return text;
    }
  };
  Writer request(Op op) { return Writer(op, next_.fetch_add(1, std::memory_order_relaxed)); }
  Answer ask(Writer request, const base::Deadline& deadline, std::span<const std::string> awaited);
  Answer ask(Writer request) { return ask(std::move(request), base::Deadline(timeout()), {}); }
  Answer await(Writer request, Milliseconds timeout, std::span<const std::string> keys);
  void send(std::string frame, const base::Deadline& deadline);
  ssize_t transmit(std::string_view bytes);
  ssize_t receive(void* to, std::size_t size);
  void read_some(const base::Deadline& deadline, std::unique_lock<std::mutex>& lock);
  void dispatch();
  std::optional<std::string> take_frame();
  void check_greeting();
  void check_process() const;
  void break_off(std::exception_ptr reason);
  [[noreturn]] void throw_gone(int error) const;

  std::unique_ptr<StoreServer> server_;
  const base::FileDescriptor fd_;
  const std::unique_ptr<base::TlsConnection> tls_;  ///< null: the connection is not encrypted
  std::mutex in_tls_;                               ///< guards it: one thread sends while another reads
  bool unread_ = false;                             ///< it may hold answers that epoll knows nothing of; of the thread that reads
  const std::string place_;
  const int pid_;
  std::optional<Addresses> addresses_;

  std::atomic<std::uint64_t> next_{1};
  std::mutex sending_;  ///< guards the next one
  std::optional<FrameSealer> sealer_;
  std::mutex mutex_;  ///< guards the members below
  std::condition_variable arrived_;
  FrameBuffer in_;
  std::optional<FrameOpener> opener_;
  std::map<std::uint64_t, std::optional<Answer>> asked_;
  std::function<void(std::string_view answer)> take_;  ///< what has not been asked for by this object's own requests
  bool someone_reads_ = false;
  bool greeting_due_ = false;
  std::exception_ptr broken_;
};

/// Makes a client of one end of a connected stream; the other end is for `StoreServer::adopt`. It does not wait: the server may start later.
std::shared_ptr<Store> connect_fd(base::FileDescriptor connected);

struct ConnectOptions {
  base::Secret token = {};
  std::string job_tag = {};
  std::shared_ptr<const base::TlsContext> tls = {};       ///< encrypts; null: the connection is not encrypted
  bool strangers_expected = false;                        ///< others may listen at these addresses: a failure at one does not end the search
  std::optional<std::chrono::milliseconds> silence = {};  ///< the store's host says nothing for so long: it is gone; by default silence_limit()
};
/// Tries the addresses in turn, with growing pauses, until one answers as our store. Throws Timeout with the last reasons where none does before the
/// deadline, and ProtocolError at once where the answer is of another protocol or version, or asks for another token.
std::shared_ptr<Client> connect_tcp(const std::vector<base::SocketAddress>& addresses, const std::string& place, const ConnectOptions& options,
                                    const base::Deadline& deadline);
/// The result of one attempt at one address: the client, or the reason why there is none.
struct Attempt {
  std::shared_ptr<Client> client;
  std::string reason;
  bool final = false;  ///< trying again will not help
};
Attempt try_connect_store(const base::SocketAddress& address, const std::string& place, const ConnectOptions& options,
                          const base::Deadline& deadline);

/// Listens on the first of the addresses that allows it. Throws InvalidArgument, which names address and port, where none does.
base::FileDescriptor listen_on(const std::vector<base::SocketAddress>& addresses);

/// Makes a client of a server of this process.
std::shared_ptr<Client> connect_own(StoreServer& server, const std::string& place);
/// Makes a store that this process serves on `listening`, and returns a client of it. The server lives as long as that client.
std::shared_ptr<Client> serve(base::FileDescriptor listening, const std::string& place, ServerOptions options);

}  // namespace unisono::store
