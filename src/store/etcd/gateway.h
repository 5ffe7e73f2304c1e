#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/secret.h"

// The seam between this library and libunisono-etcd.so, the only file that is linked with libcurl. The plug-in translates between these structures
// and the JSON gateway of etcd (its version 3 API), and knows nothing of stores. It is opened when an etcd:// store is opened for the first time.
// Nothing on either side throws through the seam.
namespace unisono::store::etcd {

/// A member of the cluster, and how this process reaches it.
struct Endpoint {
  std::string url;                                  ///< "http://127.0.0.1:2379"
  std::string authority, certificate, private_key;  ///< names of PEM files; empty: the system's authorities, no certificate
  int connect_ms = 10'000;                          ///< a connection is given up after this time
};

struct Failure {
  enum class Kind {
    none,
    unreachable,  ///< nothing was sent
    lost,         ///< the request may have been carried out
    unavailable,  ///< etcd answers that it cannot answer now: it has no leader, say. The request may have been carried out
    stopped,      ///< the caller's patience is over
    refused,      ///< etcd refuses the request for good; `text` has its reason
    lease_gone,   ///< the lease has expired
    token_gone,   ///< the token of the user has expired
    compacted,    ///< the revision from which to watch is gone
    malformed,    ///< what answers does not speak as etcd does
  };
  Kind kind = Kind::none;
  std::string text = {};

  bool is_none() const { return kind == Kind::none; }
};

/// The caller's patience, which is asked before each wait.
class Patience {
 public:
  virtual ~Patience() = default;
  /// Returns for how many milliseconds to wait at most before it is asked again. Negative: give up.
  virtual int milliseconds() noexcept = 0;
};

/// A condition on a key, or on all keys from `key` up to `range_end`: its revision equals this one. A key that does not exist has revision 0.
struct Condition {
  enum class Field { mod_revision, create_revision };
  std::string key;
  std::string range_end = {};
  Field field = Field::mod_revision;
  std::int64_t revision = 0;
};

struct Operation {
  enum class Kind { get, count, put, erase };
  Kind kind = Kind::get;
  std::string key;
  std::string range_end = {};  ///< empty: the key alone
  std::string value = {};      ///< put
  std::int64_t lease = 0;      ///< put
  bool previous = false;       ///< put: the result has what was there before
};

struct KeyValue {
  std::string key, value;
  std::int64_t mod_revision = 0;
};

struct Result {
  std::vector<KeyValue> values = {};
  std::int64_t count = 0;  ///< of keys that were found or erased
};

/// Carried out as a whole: `then` where all conditions hold, else `otherwise`.
struct Transaction {
  std::vector<Condition> conditions = {};
  std::vector<Operation> then = {}, otherwise = {};
};

struct Answer {
  bool succeeded = false;
  std::int64_t revision = 0;
  std::vector<Result> results = {};  ///< one for each operation that was carried out
};

/// A connection with one endpoint, made when it is needed. One thread at a time uses it, but for `wake`.
class Channel {
 public:
  virtual ~Channel() = default;
  virtual Failure transact(const Transaction& transaction, Answer& answer, Patience& patience) noexcept = 0;
  virtual Failure grant(std::int64_t seconds, std::int64_t& lease, Patience& patience) noexcept = 0;
  /// `seconds`: what it has to live; 0: it has expired.
  virtual Failure keep_alive(std::int64_t lease, std::int64_t& seconds, Patience& patience) noexcept = 0;
  virtual Failure revoke(std::int64_t lease, Patience& patience) noexcept = 0;
  virtual Failure authenticate(const std::string& user, const base::Secret& password, std::string& token, Patience& patience) noexcept = 0;
  /// Returns when all of these keys have been set at the revision `from` or after it. `begun`: etcd has begun to watch.
  virtual Failure watch(const std::vector<std::string>& keys, std::int64_t from, bool& begun, Patience& patience) noexcept = 0;
  /// Sends this token with every request from now on.
  virtual void use_token(const base::Secret& token) = 0;
  /// Makes a wait of another thread ask for its patience.
  virtual void wake() noexcept = 0;
};

/// The functions that the plug-in exports.
struct Library {
  const char* version;  ///< "libcurl/7.88.1 OpenSSL/3.0.17"
  /// Null: `why` says why.
  std::unique_ptr<Channel> (*open)(const Endpoint& endpoint, std::string& why);
};

/// The plug-in's one function: returns null unless it was built for this very version of the library.
inline constexpr std::string_view library_entry = "unisono_etcd_library";
using LibraryEntry = const Library* (*)(const char* version_of_unisono);

}  // namespace unisono::store::etcd
