#include "coordination/notices.h"

namespace unisono::coordination {

Notices::Notices(std::shared_ptr<transport::Link> link, std::uint64_t group, const std::vector<int>& global_ranks)
    : link_(std::move(link)), group_(group), global_ranks_(global_ranks) {
  for (std::size_t r = 0; r < global_ranks.size(); ++r) rank_of_global_[global_ranks[r]] = static_cast<int>(r);
}

Notices::~Notices() { end(); }

void Notices::end() {
  if (!link_) return;
  link_->listen(group_, {});
  link_->end(group_);
  link_.reset();
}

void Notices::begin() {
  link_->listen(group_, [this](int global_rank, std::string_view notice) { dispatch(global_rank, notice); });
}

void Notices::dispatch(int global_rank, std::string_view notice) {
  const auto member = rank_of_global_.find(global_rank);
  if (member == rank_of_global_.end() || notice.empty()) return;
  const auto handler = handlers_.find(static_cast<NoticeKind>(notice.front()));
  if (handler != handlers_.end()) handler->second(member->second, notice);
}

}  // namespace unisono::coordination
