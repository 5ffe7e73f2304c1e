// The hosts of a job of MIN to MAX, which come and go while it runs.
#include <fmt/format.h>

#include <numeric>
#include <utility>

#include "launch/hosts/nodes.h"
#include "unisono/error.h"

namespace unisono::launcher {
namespace {

/// The key of the hosts whose launchers say at the end how their ranks have ended.
constexpr const char* last_hosts_key = "launchers/last-hosts";
constexpr auto slice_of_end = std::chrono::milliseconds(1000);

}  // namespace

void Nodes::close() {
  if (admission_) admission_->close();
}

std::vector<std::string> Nodes::take_news() {
  const std::lock_guard lock(mutex_);
  return std::exchange(news_, {});
}

/// Learns which hosts have come and gone; node 0 decides it.
void Nodes::hear_of_hosts() {
  if (node_ != 0) {
    hosts_.set(decode_roster(store_->get(hosts_key)));
    return look_for_own_loss();
  }
  look_for_the_gone_of_open();
  std::vector<std::string> news = admission_->admit();
  if (news.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    for (std::string& text : news) news_.push_back(std::move(text));
  }
  notify();
}

/// Throws where the others have taken this host for lost, as one that was silent for too long and goes on later. It has no part in the job any more.
void Nodes::look_for_own_loss() {
  const auto own = hosts_.find(node_);
  if (!own || !own->is_gone) return;
  const std::string why = store_->try_get(goodbye_key(node_)).value_or("");
  {
    const std::lock_guard lock(mutex_);
    if (!trouble_) trouble_ = Trouble{.kind = Trouble::Kind::lost, .node = node_, .rank = first_rank_, .how = why};
  }
  throw PeerFailed("the job goes on without this host: " + why, {.operation = "unisono run"}, PeerFailed::Cause::silent);
}

/// Tells the others that the ranks of a host will not come any more. Its launcher says no more of them.
void Nodes::lose_ranks_of(const JobHost& host) {
  const ElasticKeys keys{0};
  const HostTally tally = decode_tally(store_->own_server()->peek(keys.tally(host.number)).value_or("0 0 -1 "));
  // The ranks that form a group anew look there for those that will not come, and the ranks that meet for the first time at the first end.
  for (const std::string& name : tally.names) store_->compare_set(keys.end(name), "", "lost 0");
  if (!host.is_late) store_->compare_set(keys.first_end(), "", fmt::format("{} lost 0", host.first_rank));
  store_->set(keys.tally(host.number), encode_tally({.well = tally.well, .last_lost = host.first_rank}));
  store_->set(attempt_key(fmt::format("ends/{}", host.number)), "");
}

/// Runs on node 0 only: a launcher that is gone has ended its ranks, or will do so. Where fewer than MIN hosts are left that is trouble, unless its
/// ranks had ended before: then the job has gone on without them, or comes to its end.
void Nodes::look_for_the_gone_of_open() {
  {
    const std::lock_guard lock(mutex_);
    if (attempt_ < 0 || complete_) return;
  }
  const store::StoreServer& server = *store_->own_server();
  for (const JobHost& host : hosts_.all()) {
    const auto why = server.peek(goodbye_key(host.number));
    if (host.number == 0 || host.is_gone || !why) continue;
    const bool had_ranks = server.peek(attempt_key(fmt::format("ends/{}", host.number))).value_or("").empty();
    hosts_.note_gone(host.number);
    if (had_ranks) lose_ranks_of(host);
    admission_->publish();
    const int left = hosts_.present();
    if (had_ranks && left < least_hosts_) {
      const Trouble lost{.kind = Trouble::Kind::lost, .node = host.number, .rank = host.first_rank, .how = *why};
      store_->compare_set(attempt_key("trouble"), "", lost.text());
      admission_->close();
      continue;
    }
    {
      const std::lock_guard lock(mutex_);
      const std::string how = *why == leaving ? "has left" : fmt::format("is lost ({})", *why);
      news_.push_back(fmt::format("the launcher at {} {}; the job goes on with {} host{}", host.where, how, left, left == 1 ? "" : "s"));
    }
    notify();
  }
}

/// Returns the hosts whose launchers report how their ranks have ended; none where this object ends. In an open job node 0 says which.
std::vector<int> Nodes::hosts_at_the_end(const std::string& own_ends) {
  if (!is_open_) {
    std::vector<int> nodes(static_cast<std::size_t>(nodes_));
    std::iota(nodes.begin(), nodes.end(), 0);
    return nodes;
  }
  std::vector<JobHost> hosts;
  if (node_ == 0) {
    admission_->close();
    hosts = hosts_.all();
    store_->set(last_hosts_key, encode_roster(hosts));
  } else {
    store_->set(attempt_key(fmt::format("ends/{}", node_)), own_ends);
    for (bool waits = true; waits;) {
      {
        const std::lock_guard lock(mutex_);
        if (stop_) return {};
      }
      try {
        hosts = decode_roster(store_->get(last_hosts_key, slice_of_end));
        waits = false;
      } catch (const Timeout&) {  // NOLINT(bugprone-empty-catch): ranks run for as long as they like
      }
    }
  }
  std::vector<int> nodes;
  for (const JobHost& host : hosts) nodes.push_back(host.number);
  return nodes;
}

}  // namespace unisono::launcher
