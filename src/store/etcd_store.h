#pragma once

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

#include "base/deadline.h"
#include "base/environment.h"
#include "store/batch.h"
#include "store/etcd_client.h"
#include "store/etcd_leases.h"
#include "store/etcd_writer.h"
#include "unisono/store.h"

namespace unisono::store::etcd {

/// A store whose keys lie in etcd, below a prefix:
///
///   PREFIX/k/KEY       a value behind "=", or "#" and the name of its pieces where it is too long for one of etcd's
///   PREFIX/c/NAME/I    such a piece
///   PREFIX/p/NUMBER    a process that lives; with its lease
///   PREFIX/o/NUMBER/I  the mark of its last change (etcd_writer.h); with the same lease
///   PREFIX/l           the lease of all other keys
class KeysInEtcd final : public Store, public BatchedReads {
 public:
  /// Throws what `Client` throws.
  KeysInEtcd(Location location, const base::Deadline& deadline);
  /// Takes back the presence of this process. The last one removes all keys.
  ~KeysInEtcd() override;

  void set(std::string_view key, std::string_view value) override;
  std::string get(std::string_view key, std::optional<Milliseconds> timeout = {}) override;
  std::optional<std::string> try_get(std::string_view key) override;
  std::vector<std::optional<std::string>> try_get_all(std::span<const std::string> keys) override;
  std::int64_t add(std::string_view key, std::int64_t amount) override;
  void wait(std::span<const std::string> keys, std::optional<Milliseconds> timeout = {}) override;
  std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired) override;
  bool erase(std::string_view key) override;
  std::int64_t num_keys() override;

  const Location& location() const { return client_.location(); }
  /// Returns a number that stands for this process.
  std::int64_t presence() const { return leases_.number(); }
  /// Returns false where the process with this number has left, or has given no sign of life for UNISONO_ETCD_TTL.
  bool is_present(std::int64_t presence);
  /// Returns true where etcd has not answered the last request.
  bool is_lost() const { return client_.is_lost(); }

 private:
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

/// Opens the store of an etcd:// URL.
std::shared_ptr<KeysInEtcd> open_etcd(std::string_view url, const base::Environment& environment, const base::Deadline& deadline);

}  // namespace unisono::store::etcd
