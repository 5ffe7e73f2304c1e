#include "transport/tcp/rank_addresses.h"

#include <fmt/format.h>

#include "base/printable.h"
#include "unisono/error.h"

namespace unisono::transport {

std::pair<std::string_view, std::uint16_t> split_address(std::string_view text, std::string_view source) {
  const auto space = text.find(' ');
  const auto port = base::whole_number<std::uint16_t>(space == std::string_view::npos ? std::string_view() : text.substr(space + 1));
  if (port.value_or(0) == 0 || space == 0) throw ProtocolError(fmt::format("a malformed {}", source));
  return {text.substr(0, space), *port};
}

std::string RankAddresses::of(int rank) const {
  const Place& place = places_[static_cast<std::size_t>(rank)];
  return place.host == 0 ? std::string() : fmt::format("{} {}", hosts_[place.host - 1], place.port);
}

void RankAddresses::set(int rank, std::string_view text) {
  const auto [host, port] = split_address(text, fmt::format("address of rank {}", rank));
  auto found = numbers_.find(host);
  if (found == numbers_.end()) {
    if (hosts_.size() == places_.size()) throw ProtocolError("more addresses than ranks");  // each rank has one
    hosts_.emplace_back(host);
    found = numbers_.emplace(host, static_cast<std::uint32_t>(hosts_.size())).first;
  }
  places_[static_cast<std::size_t>(rank)] = {.host = found->second, .port = port};
}

}  // namespace unisono::transport
