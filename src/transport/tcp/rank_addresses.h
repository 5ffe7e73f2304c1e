#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace unisono::transport {

/// Splits "10.0.0.2 41234" into host and port. Throws ProtocolError where the text is no address; `source` says what it is, for the error.
std::pair<std::string_view, std::uint16_t> split_address(std::string_view text, std::string_view source);

/// Where ranks listen, as texts that split_address reads. The text of a host is kept once, so a rank takes eight bytes.
class RankAddresses {
 public:
  explicit RankAddresses(std::size_t ranks) : places_(ranks) {}

  std::size_t size() const { return places_.size(); }
  /// Returns an empty text where it is not known.
  std::string of(int rank) const;
  /// Throws ProtocolError where the text is no address, and where there are more hosts than ranks.
  void set(int rank, std::string_view text);

 private:
  struct Place {
    std::uint32_t host = 0;  ///< counted from 1; 0: not known
    std::uint16_t port = 0;
  };
  std::vector<Place> places_;  ///< by rank
  std::vector<std::string> hosts_;
  std::map<std::string, std::uint32_t, std::less<>> numbers_;  ///< of the hosts
};

}  // namespace unisono::transport
