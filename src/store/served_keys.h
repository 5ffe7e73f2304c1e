#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "store/session.h"
#include "store/table.h"
#include "store/wire.h"

namespace unisono::store {

/// A parked get or wait request.
struct Waiter {
  std::uint64_t session = 0;
  std::uint64_t request = 0;
  bool wants_value = false;  ///< it is a get of its only key
  std::vector<std::string> keys;
  base::Clock::time_point expires;
  std::size_t seen = 0;  ///< so many keys at the beginning were there when they were looked up

  std::size_t bytes() const {
    std::size_t sum = 0;
    for (const std::string& key : keys) sum += sizeof key + key.size();  // NOLINT(bugprone-sizeof-container): both
    return sum;
  }
};

/// The requests that wait for keys. Each is filed under the first key it misses and is looked at again only when that key is set. It goes on behind
/// that key then, so that waiting for many keys costs a look at each, and a second one when the last of them has come.
class Waiters {
 public:
  std::uint64_t park(Waiter waiter, const Table& table);
  void drop(std::uint64_t id);
  /// Removes and returns a waiter that `key`, which was just set, completes.
  std::optional<std::pair<std::uint64_t, Waiter>> complete(const std::string& key, const Table& table);
  /// Removes and returns a waiter whose time is over at `now`.
  std::optional<std::pair<std::uint64_t, Waiter>> expire(base::Clock::time_point now);
  base::Clock::time_point next_expiry() const { return by_time_.empty() ? base::Clock::time_point::max() : by_time_.begin()->first; }
  std::size_t size() const { return all_.size(); }
  /// Returns how many keys of parked requests have been looked up so far.
  std::uint64_t looks() const { return looks_; }

  static const std::string* first_missing(const std::vector<std::string>& keys, const Table& table);

 private:
  const std::string* next_missing(Waiter& waiter, const Table& table);
  Waiter remove(std::uint64_t id);
  void unfile(std::uint64_t id);
  void refile(std::uint64_t id, const std::string& key);

  std::unordered_map<std::uint64_t, Waiter> all_;
  std::unordered_map<std::uint64_t, std::string> filed_under_;
  std::unordered_map<std::string, std::set<std::uint64_t>> by_key_;
  std::set<std::pair<base::Clock::time_point, std::uint64_t>> by_time_;
  std::uint64_t next_ = 1;
  std::uint64_t looks_ = 0;
};

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
