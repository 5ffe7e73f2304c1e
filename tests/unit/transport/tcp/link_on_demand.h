#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "link_testing.h"
#include "transport/tcp/relay.h"

namespace unisono::testing {

using transport::WatchTree;
using Announcement = Link::Announcement;

inline constexpr int world = 20;  // rank 0 has the children 1 … 8, rank 1 has 9 … 16, rank 2 has 17 … 19

inline std::vector<std::shared_ptr<Link>> links_on_demand(int count = world, const std::function<void(Link::Options&)>& change = {}) {
  return make_links(count, [&](Link::Options& options) {
    options.most_eager = 0;
    if (change) change(options);
  });
}

inline const std::shared_ptr<Link>& of(const std::vector<std::shared_ptr<Link>>& links, int rank) { return links[static_cast<std::size_t>(rank)]; }

inline std::vector<int> others_than(int rank, int count = world) {
  std::vector<int> others;
  for (int r = 0; r < count; ++r) {
    if (r != rank) others.push_back(r);
  }
  return others;
}

/// Sends a number from one to the other and sees that it comes.
inline void talk(const std::vector<std::shared_ptr<Link>>& links, int from, int to, int value) {
  int in = 0;
  const auto recv = of(links, to)->recv(&in, sizeof in, from, {1, 1});
  const auto send = of(links, from)->send(&value, sizeof value, to, {1, 1});
  finish(*recv);
  finish(*send);
  EXPECT_EQ(in, value);
}

/// What each rank hears of a group, with who says it.
class Ears {
 public:
  Ears(const std::vector<std::shared_ptr<Link>>& links, std::uint64_t group) : links_(links), group_(group) {
    for (std::size_t r = 0; r < links.size(); ++r) {
      if (!links[r]) continue;
      links[r]->listen(group, [this, r](int peer, std::string_view text) {
        const std::lock_guard lock(mutex_);
        heard_[static_cast<int>(r)].emplace_back(peer, text);
      });
    }
  }
  ~Ears() {
    for (const auto& link : links_) {
      if (link) link->listen(group_, {});
    }
  }
  Ears(const Ears&) = delete;
  Ears& operator=(const Ears&) = delete;
  std::vector<std::pair<int, std::string>> of(int rank) {
    const std::lock_guard lock(mutex_);
    return heard_[rank];
  }

 private:
  const std::vector<std::shared_ptr<Link>>& links_;
  std::uint64_t group_;
  std::mutex mutex_;
  std::map<int, std::vector<std::pair<int, std::string>>> heard_;
};

inline bool all_know_the_loss_of(const std::vector<std::shared_ptr<Link>>& links, int rank) {
  return eventually([&] {
    return std::ranges::all_of(links, [&](const auto& link) { return !link || (link->is_gone(rank) && link->lost() && !link->has_left(rank)); });
  });
}

}  // namespace unisono::testing
