#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/thread.h"
#include "store/etcd.h"
#include "store/etcd/client.h"

namespace unisono::store::etcd {

/// The signs of life of this process, which a thread renews. There are two leases: of this process alone, with which its presence and its marks
/// vanish soon after it has died; and of all processes that use the prefix, with which the keys of a job vanish some time after the last of them has
/// died.
class Leases {
 public:
  /// Announces this process.
  Leases(Client& client, const base::Deadline& deadline);
  /// Ends the thread. It does not take back the presence: `leave` does.
  ~Leases();
  Leases(const Leases&) = delete;
  Leases& operator=(const Leases&) = delete;

  /// Returns a number that stands for this process, while its presence is announced.
  std::int64_t number() const { return number_; }
  std::int64_t of_process() const { return process_.load(std::memory_order_relaxed); }
  std::int64_t of_all() const { return all_.load(std::memory_order_relaxed); }
  static std::string presence_key(const std::string& prefix, std::int64_t number);
  /// Looks whether both leases live, and replaces one that has expired.
  void renew(const base::Deadline& deadline);
  /// Takes back the presence. The last process removes all keys of the prefix.
  void leave(const base::Deadline& deadline);

 private:
  void announce(const base::Deadline& deadline);
  void find_lease_of_all(const base::Deadline& deadline);
  void keep_alive();

  Client& client_;
  const std::int64_t number_;
  std::mutex renewing_;
  std::atomic<std::int64_t> process_{0}, all_{0};
  std::mutex mutex_;  ///< guards the next one
  bool stop_ = false;
  std::condition_variable stopping_;
  base::Thread thread_;
};

/// Carries out changes exactly once, although an answer may be lost and the request be sent again, or reach etcd late.
///
/// Each change also writes a mark: a key of this process, or one of several where threads write at once, with the number of the change. It is carried
/// out only where the mark is still that of the change before. So a request that arrives a second time changes nothing, and finds by the mark whether
/// the first one did.
class Writer {
 public:
  Writer(Client& client, Leases& leases);

  struct Outcome {
    bool applied = false;
    std::vector<Result> results = {};  ///< of `then`, unless the answer was lost; where not applied, of `otherwise`
  };
  /// `change.then` with its conditions, else `change.otherwise`. Operations that put get the lease of all.
  Outcome write(Transaction change, const base::Deadline& deadline);

 private:
  struct Mark {
    std::string key;
    std::int64_t revision = 0;  ///< at which the mark was written last; 0: it does not exist
    std::uint64_t number = 0;   ///< of the change
  };
  class Turn;
  Outcome attempt(Mark& mark, const Transaction& change, const base::Deadline& deadline);
  bool has_applied(Mark& mark, const Answer& answer, std::size_t at) const;

  Client& client_;
  Leases& leases_;
  std::mutex mutex_;         ///< guards the members below
  std::vector<Mark> marks_;  ///< that no thread uses now
  int made_ = 0;
};

/// A store whose keys lie in etcd, below a prefix:
///
///   PREFIX/k/KEY       a value behind "=", or "#" and the name of its pieces where it is too long for one of etcd's
///   PREFIX/c/NAME/I    such a piece
///   PREFIX/p/NUMBER    a process that lives; with its lease
///   PREFIX/o/NUMBER/I  the mark of its last change (the class Writer); with the same lease
///   PREFIX/l           the lease of all other keys
class Keys final : public KeysInEtcd {
 public:
  /// Throws what `Client` throws.
  Keys(Location location, const base::Deadline& deadline);
  /// Takes back the presence of this process. The last one removes all keys.
  ~Keys() override;

  void set(std::string_view key, std::string_view value) override;
  std::string get(std::string_view key, std::optional<Milliseconds> timeout = {}) override;
  std::optional<std::string> try_get(std::string_view key) override;
  std::vector<std::optional<std::string>> try_get_all(std::span<const std::string> keys) override;
  std::int64_t add(std::string_view key, std::int64_t amount) override;
  void wait(std::span<const std::string> keys, std::optional<Milliseconds> timeout = {}) override;
  std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired) override;
  bool erase(std::string_view key) override;
  std::int64_t num_keys() override;

  const std::string& url() const override { return location().url; }
  std::chrono::seconds time_to_live() const override { return location().time_to_live; }
  std::int64_t presence() const override { return leases_.number(); }
  bool is_present(std::int64_t presence) override;
  bool is_lost() const override { return client_.is_lost(); }

 private:
  const Location& location() const { return client_.location(); }
  /// A key as etcd has it.
  struct Found {
    bool exists = false;
    std::string value;              ///< as it was set
    std::string raw;                ///< as etcd has it
    std::int64_t mod_revision = 0;  ///< 0: it does not exist
  };
  std::string whole_key(std::string_view key) const;
  Found find(std::string_view key, const base::Deadline& deadline);
  std::optional<std::string> value_of(const KeyValue& stored, const base::Deadline& deadline);
  std::string store_pieces(std::string_view value, const base::Deadline& deadline);
  void erase_pieces(const std::string& raw, const base::Deadline& deadline) noexcept;
  bool replace(std::string_view key, const Found& found, std::string_view value, const base::Deadline& deadline);
  std::int64_t look(std::span<const std::string> keys, Operation::Kind kind, std::vector<Result>& results, const base::Deadline& deadline);
  void await(std::span<const std::string> keys, Milliseconds timeout);

  struct Parts {
    Parts(Location location, const base::Deadline& deadline) : client(std::move(location)), leases(client, deadline), writer(client, leases) {}
    Client client;
    Leases leases;
    Writer writer;
  };

  const int pid_;
  std::unique_ptr<Parts> parts_;
  Client& client_;
  Leases& leases_;
  Writer& writer_;
  std::mutex seen_mutex_;  ///< guards the next ones
  std::set<std::string> present_;
  base::Clock::time_point seen_at_{};
};

}  // namespace unisono::store::etcd
