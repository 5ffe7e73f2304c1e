#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "transport/tcp/link.h"

namespace unisono::coordination {

/// The kinds of notices between the members of one group on different hosts: the first byte of a notice frame's content. Integers behind it are
/// little-endian (base/bytes.h).
enum class NoticeKind : std::uint8_t {
  message = 1,  ///< a message between two ranks, or its announcement
  ballot,       ///< what the ranks of a host have called
  waiting,      ///< the ranks that a host still waits for
  left_out,     ///< hosts whose ballots came too late to count
  left,         ///< the sender has left the group
  failure,      ///< the group is over, and why
};

/// The notices of one group. Ranks are ranks in the group. Notices between two ranks keep their order; a notice to a rank that is lost goes nowhere.
class Notices {
 public:
  /// Called by whoever polls the link, from any thread.
  using Handler = std::function<void(int from, std::string_view notice)>;

  /// `group`: the same number on all members, and of no other group. `global_ranks`: of the members, in group order.
  Notices(std::shared_ptr<transport::Link> link, std::uint64_t group, const std::vector<int>& global_ranks);
  /// No handler runs any more when it returns.
  ~Notices();
  Notices(const Notices&) = delete;
  Notices& operator=(const Notices&) = delete;

  /// Before `begin`.
  void handle(NoticeKind kind, Handler handler) { handlers_[kind] = std::move(handler); }
  /// From now on handlers are called; what has come before is kept until then.
  void begin();
  /// No handler runs any more when it returns, and what still comes is dropped.
  void end();

  /// The begin of such a notice.
  static base::ByteWriter of_kind(NoticeKind kind) { return std::move(base::ByteWriter().put(static_cast<std::uint8_t>(kind))); }
  /// Behind the kind.
  static base::ByteReader content_of(std::string_view notice) { return base::ByteReader(notice.substr(std::min<std::size_t>(1, notice.size()))); }
  void tell(int rank, std::string_view notice) {
    if (link_) link_->notify(global_ranks_[static_cast<std::size_t>(rank)], group_, notice);
  }

 private:
  void dispatch(int global_rank, std::string_view notice);

  std::shared_ptr<transport::Link> link_;
  std::uint64_t group_;
  std::vector<int> global_ranks_;
  std::map<int, int> rank_of_global_;
  std::map<NoticeKind, Handler> handlers_;
};

}  // namespace unisono::coordination
