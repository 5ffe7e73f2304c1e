#include "store/token.h"

#include <algorithm>

#include <fmt/format.h>

#include "ground/log.h"
#include "unisono/error.h"

namespace unisono::store {

std::string token_for(std::span<const ground::SocketAddress> addresses, const std::optional<std::string>& argument,
                      const ground::Environment& environment) {
  const auto remote = std::ranges::find_if(addresses, [](const auto& address) { return !address.is_loopback(); });
  const bool local = remote == addresses.end();
  const std::string said = argument ? *argument : environment.get("UNISONO_TOKEN").value_or("");
  if (said == "none") {
    if (!local)
      ground::warn(fmt::format("the store at {} asks for no token: whoever reaches this address can join or disturb the job", describe(*remote)));
    return {};
  }
  if (said.empty() && !local) {
    throw InvalidArgument(
        fmt::format("the store's address {} is not a loopback address, so its connections need the job's secret", describe(*remote)),
        {.hint = "set UNISONO_TOKEN to the same random text on every rank, or to \"none\" to go without"});
  }
  return said;
}

}  // namespace unisono::store
