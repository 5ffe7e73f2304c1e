#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "base/environment.h"
#include "store/requests.h"
#include "unisono/store.h"

namespace unisono::store::etcd {

/// A store whose keys lie in etcd, as the library uses it. The folder etcd/ has the only implementation, which a build may leave out
/// (-DUNISONO_ETCD=OFF).
class KeysInEtcd : public Store, public BatchedReads {
 public:
  virtual const std::string& url() const = 0;             ///< as it was given, without a query
  virtual std::chrono::seconds time_to_live() const = 0;  ///< so long after its last sign of life, a process counts as gone
  /// Returns a number that stands for this process.
  virtual std::int64_t presence() const = 0;
  /// Returns false where the process with this number has left, or has given no sign of life for its `time_to_live`.
  virtual bool is_present(std::int64_t presence) = 0;
  /// Returns true where etcd has not answered the last request.
  virtual bool is_lost() const = 0;
};

/// Opens the store of an etcd:// URL. Throws InvalidArgument for a URL of another form, and BackendUnavailable where etcd was left out of this build
/// or libunisono-etcd.so is missing.
std::shared_ptr<KeysInEtcd> open_etcd(std::string_view url, const base::Environment& environment, const base::Deadline& deadline);

}  // namespace unisono::store::etcd
