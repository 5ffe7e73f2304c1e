#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "coordination/exchange.h"

namespace unisono::coordination {

/// Elements of calls that leave before the ranks have agreed on the call. They are kept at their receivers until then, and dropped where the ranks
/// differ: each message has the number of its call. One thread at a time may use it.
class EarlyMail {
 public:
  /// A message of a call: a part of what a rank sends.
  struct Part {
    int from = -1;
    std::size_t offset = 0, total = 0;
    std::string message;  ///< with its head
    std::span<const std::byte> bytes() const;
  };
  /// Bytes of a part.
  static constexpr std::size_t longest_part = std::size_t{128} << 10;

  /// `route` tells the group of these messages, which no others have; `peers` the ranks that this one is connected with.
  EarlyMail(ExchangeRoute route, std::vector<int> peers) : route_(route), peers_(std::move(peers)) {}

  /// Sends elements to a rank of the group. Never waits.
  void post(int rank, std::uint64_t call, std::span<const std::byte> bytes);
  /// Begins to take the messages of a call from these ranks, in place of those of the call before.
  void expect(std::uint64_t call, std::vector<int> ranks);
  /// Takes what has been read. Returns true where there is a part that `next` has not returned.
  bool fetch();
  /// Returns the next part in `part`, of any of the ranks. Returns false where there is none.
  bool next(Part& part);
  /// Drops all that belongs to earlier calls than that one.
  void drop_before(std::uint64_t call);
  std::uint64_t group() const { return route_.group; }

 private:
  bool take(int rank);
  void post_part(int rank, std::uint64_t call, std::size_t offset, std::size_t total, std::span<const std::byte> bytes);

  ExchangeRoute route_;
  std::vector<int> peers_;
  std::uint64_t call_ = 0;
  std::vector<int> expected_;
  std::deque<Part> parts_;
  std::map<int, std::string> later_;  ///< by rank, a message of a call that is still to come
};

}  // namespace unisono::coordination
