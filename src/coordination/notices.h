#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "transport/tcp/link.h"

namespace unisono::coordination {

/// The kinds of notices between the members of one group on different hosts. The kind is the first byte of a notice frame's content. Integers behind
/// it are little-endian (base/bytes.h).
enum class NoticeKind : std::uint8_t {
  message = 1,  ///< a message between two ranks, or its announcement
  ballot,       ///< the calls of the ranks of a host
  waiting,      ///< the ranks that a host still waits for
  left_out,     ///< hosts whose ballots came too late to count
  left,         ///< the sender has left the group, after so many agreements, in this way
  failure,      ///< the group is over, with the reason
  taken,        ///< how much of the messages to the sender it has taken
  whereabouts,  ///< the call in which the sender waits for the receiver, as a text
  wait_chain,   ///< ranks of which each waits for the next one, and the last one for the receiver or for a rank of its host
};

/// The notices of one group. Ranks are ranks in the group. Notices between two ranks keep their order; a notice to a lost rank is discarded.
class Notices {
 public:
  /// A handler is called by the thread that polls the link, which may be any.
  using Handler = std::function<void(int from, std::string notice)>;

  /// `group`: equal on all members, and different from that of any other group. `global_ranks`: of the members, in group order.
  Notices(std::shared_ptr<transport::Link> link, std::uint64_t group, const std::vector<int>& global_ranks)
      : link_(std::move(link)), group_(group), global_ranks_(global_ranks) {
    by_global_rank_.reserve(global_ranks.size());
    for (std::size_t r = 0; r < global_ranks.size(); ++r) by_global_rank_.push_back(static_cast<int>(r));
    std::ranges::sort(by_global_rank_, {}, [this](int r) { return global_rank_of(r); });
  }
  ~Notices() { end(); }
  Notices(const Notices&) = delete;
  Notices& operator=(const Notices&) = delete;

  /// Sets the handler of a kind, before `begin`.
  void handle(NoticeKind kind, Handler handler) { handlers_[kind] = std::move(handler); }
  /// Begins to call the handlers. Notices that came earlier are delivered then.
  void begin() {
    link_->listen(group_, [this](int global_rank, std::string notice) { dispatch(global_rank, std::move(notice)); });
  }
  /// Ends the notices: no handler runs any more when it returns, and later notices are dropped.
  void end() {
    if (!link_) return;
    link_->listen(group_, {});
    link_->end(group_);
    link_.reset();
  }

  /// Returns the beginning of a notice of that kind.
  static base::ByteWriter of_kind(NoticeKind kind) { return std::move(base::ByteWriter().put(static_cast<std::uint8_t>(kind))); }
  /// Returns the content behind the kind.
  static base::ByteReader content_of(std::string_view notice) { return base::ByteReader(notice.substr(std::min<std::size_t>(1, notice.size()))); }
  /// `data`: elements of the ranks, which follow the words of the notice.
  void tell(int rank, std::string_view notice, std::span<const std::byte> data = {}) {
    if (link_) link_->notify(global_rank_of(rank), group_, notice, data);
  }
  /// Sends a notice to many members, given by their ranks in the world.
  void announce(const std::vector<int>& global_ranks, std::string_view notice, transport::Link::Announcement what) {
    if (link_) link_->announce(group_, global_ranks, notice, what);
  }

 private:
  void dispatch(int global_rank, std::string notice) {
    const auto member = std::ranges::lower_bound(by_global_rank_, global_rank, {}, [this](int r) { return global_rank_of(r); });
    if (member == by_global_rank_.end() || global_rank_of(*member) != global_rank || notice.empty()) return;
    const auto handler = handlers_.find(static_cast<NoticeKind>(notice.front()));
    if (handler != handlers_.end()) handler->second(*member, std::move(notice));
  }
  int global_rank_of(int rank) const { return global_ranks_[static_cast<std::size_t>(rank)]; }

  std::shared_ptr<transport::Link> link_;
  std::uint64_t group_;
  std::vector<int> global_ranks_;
  std::vector<int> by_global_rank_;  ///< the members in the order of their ranks in the world
  std::map<NoticeKind, Handler> handlers_;
};

}  // namespace unisono::coordination
