#pragma once

#include <sys/types.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "base/log.h"
#include "base/secret.h"
#include "base/tls_library.h"
#include "store/authentication.h"
#include "store/table.h"
#include "store/wire.h"
#include "unisono/detail/switches.h"

namespace unisono::store {

struct ServerOptions {
  base::Secret token = {};                           ///< TCP clients must prove to know it; empty: none
  std::string job_tag = {};                          ///< TCP clients that name another are refused; empty: any
  std::shared_ptr<const base::TlsContext> tls = {};  ///< TCP connections are encrypted with it; null: they are not
  Limits limits = {};
  std::chrono::milliseconds handshake_timeout = std::chrono::seconds(2);
  std::chrono::milliseconds silence = detail::silence_limit();  ///< the host of a client says nothing for so long: the client is gone
  pid_t family_of = 0;              ///< clients on AF_UNIX must be this process or descend from it; 0: any process of the user may come
  std::size_t most_pending = 64;    ///< connections that have not authenticated yet
  std::size_t most_waiting = 1024;  ///< parked requests of one connection
  std::size_t most_waiting_bytes = std::size_t{32} << 20;  ///< bytes of the keys of those requests
  std::size_t most_unsent = std::size_t{64} << 20;         ///< bytes that one connection may leave unread before it is closed
};

/// What a server has at this moment.
struct ServerCounts {
  std::size_t connections = 0, pending = 0, waiting = 0, keys = 0;
};

/// A connection on the server's side.
struct Session {
  enum class Stage {
    encryption,  ///< the handshake of TLS
    greeting,    ///< nothing is known of the other side yet
    hello,       ///< it speaks our version
    proof,       ///< it was challenged
    open,        ///< its requests are answered
    closing,     ///< it is told why it was refused; its further bytes are discarded
  };

  base::FileDescriptor fd;
  std::unique_ptr<base::TlsConnection> tls = {};  ///< null: it is not encrypted
  std::string source;                             ///< numeric address, for messages
  bool trusted = false;
  bool is_forwarded = false;        ///< its requests are another store's (forwarder.h)
  base::Clock::time_point since{};  ///< time of its acceptance
  Stage stage = Stage::greeting;
  Exchange exchange;
  std::optional<FrameSealer> sealer = {};  ///< of what is sent; none: the frames have no codes
  std::optional<FrameOpener> opener = {};  ///< of what is received
  FrameBuffer in;
  std::string out;
  std::size_t sent = 0;                                   ///< bytes of `out` that were sent
  std::set<std::uint64_t> waiting;                        ///< its parked requests
  std::size_t waiting_bytes = 0;                          ///< bytes of their keys
  std::vector<std::pair<std::string, std::string>> will;  ///< keys and values that are set when it ends, unless they are set by then
  base::Clock::time_point expires = base::Clock::time_point::max();
  std::uint32_t interest = 0;  ///< events that epoll watches for

  /// Returns true before it has authenticated, while it still can.
  bool pending() const { return stage == Stage::greeting ? !trusted : stage < Stage::open; }
  /// Returns true where it counts among the connections that have not authenticated, refused ones included.
  bool takes_place() const { return !trusted && stage != Stage::open; }
  std::size_t unsent() const { return out.size() - sent; }
  /// Returns true where bytes wait for the socket to be writable.
  bool is_blocked() const { return unsent() > 0 || (tls && tls->has_unsent()); }

  /// Returns true where so much is unsent that the connection is not read from: a client that only asks cannot fill the server's memory.
  bool is_full() const { return unsent() > enough_unsent; }
  static constexpr std::size_t enough_unsent = std::size_t{16} << 20;

  void send(std::string frame);
  /// Writes what the socket takes. Returns false where the connection is lost.
  bool write();
  /// Ends the session when what was sent has gone, at most after that time. A client that has not authenticated gets no more time than it had.
  void begin_to_close(std::chrono::milliseconds at_most) {
    stage = Stage::closing;
    expires = std::min(expires, base::Clock::now() + at_most);
  }
};

/// Decides who is a client: the greeting and the handshake on the server's side, and the frames that a session may send.
class ServerHandshake {
 public:
  explicit ServerHandshake(const ServerOptions& options) : options_(options) {}

  /// Handles what comes first on a connection. Returns false where it cannot be answered: the connection is closed.
  bool begin(Session& session);
  /// Takes the next frame. Returns nothing where none has arrived, or the session was refused for what has.
  std::optional<std::string> take_frame(Session& session);
  /// Handles a frame of a session that has not authenticated.
  void receive(Session& session, std::string_view frame);
  void refuse(Session& session, std::uint64_t request, std::string_view why);
  void log_rejected(const Session& session, std::string_view why) { rejections_.log(session.source, why); }

 private:
  void receive_hello(Session& session, Op op, Reader& in);
  void receive_proof(Session& session, Op op, Reader& in);

  const ServerOptions& options_;
  base::RejectionLog rejections_{"the store"};
};

/// The sockets at which a server listens: accepts connections, or pauses where there is no room or no means for another one.
class Listeners {
 public:
  using Id = std::uint64_t;
  using Time = base::Clock::time_point;
  struct Owner {
    /// Returns the time until there is room for another connection that has not authenticated; none: there is room now.
    std::function<std::chrono::milliseconds()> make_room{};
    std::function<void(base::FileDescriptor fd)> add_local{};
    std::function<void(base::FileDescriptor fd, std::string source, std::unique_ptr<base::TlsConnection> tls)> add{};
  };
  /// `epoll` watches the sockets, by their ids.
  Listeners(int epoll, const ServerOptions& options, Owner owner) : epoll_(epoll), options_(options), owner_(std::move(owner)) {}

  /// Throws InvalidArgument.
  void add(Id id, base::FileDescriptor listening);
  /// Accepts what has come at that socket. Returns false where the id is none of these.
  bool accept(Id id);
  /// Ends the pauses that are over.
  void resume(Time now);
  Time next_resume() const;
  void clear() { listeners_.clear(); }

 private:
  struct Listener {
    base::FileDescriptor fd;
    bool local = false;  ///< AF_UNIX
    bool paused = false;
    Time resume{};
  };
  void accept_all(Id id, Listener& listener);
  void add_remote(base::FileDescriptor fd);
  bool admits_local(int fd) const;
  void pause(Id id, Listener& listener, std::chrono::milliseconds time);
  void watch(Id id, const Listener& listener) const;

  const int epoll_;
  const ServerOptions& options_;
  const Owner owner_;
  std::map<Id, Listener> listeners_{};
};

}  // namespace unisono::store
