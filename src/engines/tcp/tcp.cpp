#include "engines/tcp/tcp.h"

#include <atomic>
#include <cstdint>
#include <limits>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "store/authentication.h"

namespace unisono::engines::tcp {
namespace {

/// The reason why the group is over, for its tasks, which may live longer than the engine.
struct Ending {
  std::atomic<bool> over{false};
  std::mutex mutex;
  Failure failure;
};

// Returns a number that is equal on all members, and different from that of any other group. The key may be of any length.
std::uint64_t group_id(const std::string& key) { return std::stoull(store::digest("tcp engine " + key).substr(0, 16), nullptr, 16); }

/// A task of the link, which uses ranks of the world, with the peer's rank in the group.
class TcpTask final : public Task {
 public:
  TcpTask(std::unique_ptr<Task> task, int peer, std::shared_ptr<Ending> ending) : task_(std::move(task)), peer_(peer), ending_(std::move(ending)) {}

  bool advance() override {
    if (ending_->over.load(std::memory_order_acquire)) {
      const std::lock_guard lock(ending_->mutex);
      throw PeerFailed(ending_->failure.message, {}, ending_->failure.cause);
    }
    return task_->advance();
  }
  std::vector<int> waiting_for() const override { return {peer_}; }
  bool detach() override { return task_->detach(); }
  bool sleep(std::chrono::nanoseconds at_most) override { return task_->sleep(at_most); }

 private:
  const std::unique_ptr<Task> task_;
  const int peer_;
  const std::shared_ptr<Ending> ending_;
};

class Tcp final : public Engine {
 public:
  Tcp(const EngineOptions& options, std::shared_ptr<transport::Link> link)
      : rank_(options.rank), global_ranks_(options.global_ranks), group_(group_id(options.key)), link_(std::move(link)) {
    if (global_ranks_.size() < 2) return;
    if (!link_)
      throw BackendUnavailable("the tcp engine has no connections to work with",
                               {.hint = "a group has those of the world: initialize with backend tcp"});
    for (const int global : global_ranks_) {
      if (global != global_ranks_.at(static_cast<std::size_t>(rank_)) && link_->address_of(global).empty()) {
        throw BackendUnavailable(fmt::format("the tcp engine has no connection with rank {} of the world", global));
      }
    }
  }

  std::string_view name() const noexcept override { return "tcp"; }
  bool has_channels() const noexcept override { return true; }
  std::unique_ptr<Task> start_send(const void* data, std::size_t bytes, int peer, std::uint32_t channel) override {
    return std::make_unique<TcpTask>(link_->send(data, bytes, global(peer), {group_, channel}), peer, ending_);
  }
  std::unique_ptr<Task> start_recv(void* data, std::size_t bytes, int peer, std::uint32_t channel) override {
    return std::make_unique<TcpTask>(link_->recv(data, bytes, global(peer), {group_, channel}), peer, ending_);
  }
  std::unique_ptr<Task> start_discard(std::size_t bytes, int peer, std::uint32_t channel) override {
    return start_recv(nullptr, bytes, peer, channel);
  }
  std::uint32_t largest_channel() const noexcept override { return std::numeric_limits<std::uint32_t>::max(); }

  void abort(const Failure& failure) noexcept override {
    try {
      {
        const std::lock_guard lock(ending_->mutex);
        ending_->failure = failure;
      }
      ending_->over.store(true, std::memory_order_release);
      if (link_) link_->end(group_);
    } catch (...) {  // without memory for the text the tasks still throw: `over` is set, or their deadline passes
      ending_->over.store(true, std::memory_order_release);
    }
  }

 private:
  int global(int peer) const {
    if (!link_ || peer == rank_ || peer < 0 || static_cast<std::size_t>(peer) >= global_ranks_.size()) {
      throw InvalidArgument(fmt::format("the tcp engine has no channel with rank {}", peer));
    }
    return global_ranks_[static_cast<std::size_t>(peer)];
  }

  const int rank_;
  const std::vector<int> global_ranks_;
  const std::uint64_t group_;
  const std::shared_ptr<transport::Link> link_;
  const std::shared_ptr<Ending> ending_ = std::make_shared<Ending>();
};

}  // namespace

std::unique_ptr<Engine> make_tcp(const EngineOptions& options, std::shared_ptr<transport::Link> link) {
  return std::make_unique<Tcp>(options, std::move(link));
}

}  // namespace unisono::engines::tcp
