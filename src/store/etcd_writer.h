#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "store/etcd_client.h"
#include "store/etcd_leases.h"

namespace unisono::store::etcd {

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

}  // namespace unisono::store::etcd
