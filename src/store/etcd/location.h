#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/environment.h"
#include "base/secret.h"
#include "store/etcd/gateway.h"

namespace unisono::store::etcd {

/// A part of the keys of a cluster, and how it is reached.
struct Location {
  std::string url;  ///< as it was given, without a query
  std::vector<Endpoint> endpoints;
  std::string prefix;  ///< of all keys, without a slash at its end
  std::string user;
  base::Secret password;
  std::chrono::seconds time_to_live{10};  ///< so long after its last sign of life, a process counts as gone

  /// Returns the name of the store in messages: "the store etcd://a:2379/train".
  std::string name() const { return "the store " + url; }
};

/// Reads "etcd://user@host:2379,host:2379/prefix?ttl=10", or etcds:// where connections are encrypted by TLS, and the variables that begin with
/// UNISONO_ETCD_. Throws InvalidArgument, with the URL or the variable.
Location location_of(std::string_view url, const base::Environment& environment);

}  // namespace unisono::store::etcd
