#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/deadline.h"
#include "base/socket.h"
#include "rendezvous/join.h"
#include "rendezvous/record.h"
#include "store/etcd.h"

namespace unisono::launcher {

// How the launchers of a job of MIN to MAX hosts find host 0 in etcd. The jobs that follow each other at the same place have numbers.
//
//   unisono/hosts/N/zero      the launcher that has claimed to be host 0 of job N; "left" once that job is over
//   unisono/hosts/N/address   where it serves the launchers' store
//   unisono/hosts/fixed       a launcher of a job with a fixed number of hosts, which meet there in another way (rendezvous/join.h)
//
// A claim holds while the presence of its launcher in etcd does: until that one leaves, or the URL's ttl seconds after its last sign of life. The
// first one that finds it without a presence closes that job's number for good, so that all who come later agree about it.

/// The place of a job in etcd, as one launcher sees it.
class OpenPlace {
 public:
  /// Uses the record and the `is_alive` of the request.
  OpenPlace(std::shared_ptr<store::etcd::KeysInEtcd> store, const rendezvous::JoinRequest& request);

  enum class Claim {
    never,      ///< this launcher was given another number
    if_free,    ///< where no other one is host 0
    only_this,  ///< it was given number 0: another one is an error
  };
  struct HostZero {
    bool is_own = false;       ///< this launcher has claimed it, and tells its address
    std::string seat = {};     ///< is_own: set to `left` when the job is over
    std::string claim = {};    ///< is_own: what stands there until then
    std::string address = {};  ///< is_own: the key of the address; else the address, at which somebody listens
  };
  /// Finds host 0, or becomes it. Throws InvalidArgument where the place or its host 0 is another launcher's, Timeout where no host 0 comes, tells
  /// its address and can be reached in time.
  HostZero find(Claim claim, const base::Deadline& deadline);

  /// Returns why `find` cannot reach the host 0 that is there: "127.0.0.1:4000: Connection refused"; empty: it has found none. Any thread may call
  /// it.
  std::string why_unreachable() const;

  /// Says that a job with a fixed number of hosts is here. Throws InvalidArgument where one of MIN to MAX hosts is.
  void take_for_fixed();

 private:
  struct Latest {
    int number = 1;
    std::optional<rendezvous::Record> zero = {};  ///< empty: free
  };
  Latest latest();
  std::optional<rendezvous::Record> living(const std::string& said) const;
  std::optional<std::string> await(const std::string& key, const base::Deadline& deadline);
  void refuse_beside_fixed(const std::string& seat);
  void note_unreachable(const std::string& why);

  const std::shared_ptr<store::etcd::KeysInEtcd> store_;
  const std::string own_, who_;
  const std::function<bool(const rendezvous::Record&)> is_alive_;
  mutable std::mutex mutex_;  // guards the next one
  std::string unreachable_;
};

/// "HOST PORT", as host 0 tells its address.
struct ToldAddress {
  std::string host;
  int port = 0;
};
/// Throws ProtocolError where the text is no address.
ToldAddress decode_address(const std::string& text);

}  // namespace unisono::launcher
