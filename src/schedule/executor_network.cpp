// What an executor knows of the network between its hosts, and tells of it.
#include <fmt/format.h>

#include "base/log.h"
#include "schedule/calibration.h"
#include "schedule/executor.h"
#include "schedule/selection.h"

namespace unisono::schedule {

void Executor::set_network(const Calibration& calibration) {
  network_ = calibration.result();
  origin_of_network_ = calibration.was_known() ? "measured by an earlier group on these hosts" : "measured";
  if (networks_.measured) networks_.measured->keep(name(), networks_.hosts, *network_);
  base::debug(fmt::format("the network between {} hosts, {}", coordination_.topology().host_count(), describe_network()));
}

std::string Executor::describe_network() const {
  const NetworkParameters network = network_.value_or(NetworkParameters());
  const std::string text = fmt::format("{}: {} (UNISONO_NETWORK={})", origin_of_network_, describe(network), text_of(network));
  const bool may_be_replaced = network.is_crowded() && origin_of_network_.starts_with("measured");
  return may_be_replaced ? text + "; ranks share processors, so figures near the loopback interface's are replaced by its fixed ones" : text;
}

std::vector<std::pair<std::string, std::string>> Executor::describe_choices() const {
  return describe_table(setting(), coordination_.connects_all());
}

}  // namespace unisono::schedule
