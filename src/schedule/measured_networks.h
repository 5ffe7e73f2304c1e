#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "schedule/cost_model.h"

namespace unisono::schedule {

/// What the groups of a job have measured of the networks between their hosts, as this rank knows it. A later group on the same hosts and by the same
/// engine takes these figures instead of measuring again, as far as its rank 0 has them: that one's figures go to all ranks in either case.
class MeasuredNetworks {
 public:
  /// `hosts`: their numbers in the world, each once, in ascending order.
  std::optional<NetworkParameters> find(std::string_view engine, const std::vector<int>& hosts) const {
    const std::lock_guard lock(mutex_);
    const auto found = measured_.find({std::string(engine), hosts});
    return found == measured_.end() ? std::nullopt : std::optional(found->second);
  }
  void keep(std::string_view engine, const std::vector<int>& hosts, const NetworkParameters& network) {
    const std::lock_guard lock(mutex_);
    measured_.insert_or_assign({std::string(engine), hosts}, network);
  }

 private:
  mutable std::mutex mutex_;  // groups are used by several threads
  std::map<std::pair<std::string, std::vector<int>>, NetworkParameters> measured_;
};

/// A group's part in it.
struct SharedNetworks {
  std::shared_ptr<MeasuredNetworks> measured = nullptr;  ///< null: the group shares its figures with no other
  std::vector<int> hosts = {};                           ///< of the group, as above
  bool may_be_known = false;                             ///< the same on all ranks: the group looks for figures of earlier groups
};

}  // namespace unisono::schedule
