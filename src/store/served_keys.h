#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/server_options.h"
#include "store/session.h"
#include "store/table.h"
#include "store/waiters.h"
#include "store/wire.h"

namespace unisono::store {

/// The keys of a server and the requests of clients: what each one does, and which wait for keys. Guarded by the server's mutex.
class ServedKeys {
 public:
  explicit ServedKeys(const ServerOptions& options) : options_(options), table_(options.limits) {}

  const std::string* find(std::string_view key) const { return table_.find(key); }
  std::size_t size() const { return table_.size(); }
  void set(std::string_view key, std::string_view value);
  /// Sets what clients read by try_get alone, and none can change.
  void set_secret(std::string_view key, base::Secret value) { secrets_.insert_or_assign(std::string(key), std::move(value)); }

  /// The answer to a request: the reply, "absent", one to come when the keys are there, or a refusal.
  enum class Outcome { done, absent, parked, malformed };
  /// Carries out a request. Throws InvalidArgument, with the reason for the client.
  Outcome carry_out(std::uint64_t session_id, Session& session, std::uint64_t request, Op op, Reader& in, Writer& reply);
  /// Forgets what an ended session waits for, and sets the keys that it has left.
  void end(const Session& session);

  using Parked = std::pair<std::uint64_t, Waiter>;
  /// Removes and returns a parked request whose keys are there.
  std::optional<Parked> take_complete();
  /// Removes and returns a parked request whose time is over.
  std::optional<Parked> take_expired(base::Clock::time_point now) { return waiters_.expire(now); }
  /// Writes the reply to a request that was taken.
  void answer(const Waiter& waiter, Status status, Writer& reply) const;
  base::Clock::time_point next_expiry() const { return waiters_.next_expiry(); }
  std::size_t waiting() const { return waiters_.size(); }

 private:
  Outcome get(Reader& in, Writer& reply) const;
  Outcome get_all(Reader& in, Writer& reply) const;
  Outcome take_will(Session& session, Reader& in) const;
  Outcome wait(std::uint64_t session_id, Session& session, std::uint64_t request, Op op, Reader& in, Writer& reply);

  const ServerOptions& options_;
  Table table_;
  std::map<std::string, base::Secret, std::less<>> secrets_{};
  Waiters waiters_{};
  std::deque<std::string> touched_{};  ///< keys set since the waiters were last looked at
};

}  // namespace unisono::store
