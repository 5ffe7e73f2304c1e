// A backend in one file: the engine `store` moves bytes through the key-value store in which the ranks have met. It is slow, but works wherever ranks
// can meet. unisono does everything but moving bytes: see docs/guide/write-a-backend.md.
//   UNISONO_PLUGIN_PATH=<folder of libunisono_store.so> UNISONO_BACKEND=store unisono run -n 4 -- ./program
#include <unisono/engine.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace {

// A value of the store is at most this long.
constexpr std::size_t chunk = std::size_t{1} << 20;

/// The state that all transfers of a group share.
struct Group {
  std::shared_ptr<unisono::Store> store;
  std::atomic<bool> over{false};

  void throw_if_over() const {
    if (over) throw std::runtime_error("the group is over");
  }
};

std::string key_of(const std::string& transfer, std::size_t offset) { return transfer + "/" + std::to_string(offset); }

/// Sends without waiting for the receiver, because the value waits in the store.
class Sent final : public unisono::Task {
 public:
  Sent(Group& group, const std::string& transfer, const char* data, std::size_t bytes) {
    group.throw_if_over();
    // An empty transfer is stored as an empty value, because its receiver waits for it.
    for (std::size_t at = 0; at == 0 || at < bytes; at += chunk) group.store->set(key_of(transfer, at), {data + at, std::min(chunk, bytes - at)});
  }
  bool advance() override { return true; }
  std::vector<int> waiting_for() const override { return {}; }
};

class Received final : public unisono::Task {
 public:
  Received(Group& group, std::string transfer, char* data, std::size_t bytes, int peer)
      : group_(group), transfer_(std::move(transfer)), data_(data), bytes_(bytes), peer_(peer) {}

  bool advance() override {
    while (!done_) {
      group_.throw_if_over();
      const std::string key = key_of(transfer_, at_);
      const auto value = group_.store->try_get(key);
      if (!value) return false;
      group_.store->erase(key);
      if (value->size() != std::min(chunk, bytes_ - at_)) throw std::runtime_error("rank " + std::to_string(peer_) + " sent another length");
      if (!value->empty()) std::memcpy(data_ + at_, value->data(), value->size());
      at_ += chunk;
      done_ = at_ >= bytes_;
    }
    return true;
  }
  std::vector<int> waiting_for() const override { return done_ ? std::vector<int>() : std::vector<int>{peer_}; }
  bool wakes_waiter() const override { return false; }  // no event tells that a value has come, so the task is polled

 private:
  Group& group_;
  std::string transfer_;
  char* data_;
  std::size_t bytes_;
  int peer_;
  std::size_t at_ = 0;
  bool done_ = false;
};

class StoreEngine final : public unisono::Engine {
 public:
  explicit StoreEngine(const unisono::EngineOptions& options) : rank_(options.rank) { group_.store = options.store; }

  std::string_view name() const noexcept override { return "store"; }
  bool has_channels() const noexcept override { return true; }
  std::unique_ptr<unisono::Task> start_send(const void* data, std::size_t bytes, int peer, std::uint32_t channel) override {
    return std::make_unique<Sent>(group_, next(rank_, peer, channel), static_cast<const char*>(data), bytes);
  }
  std::unique_ptr<unisono::Task> start_recv(void* data, std::size_t bytes, int peer, std::uint32_t channel) override {
    return std::make_unique<Received>(group_, next(peer, rank_, channel), static_cast<char*>(data), bytes, peer);
  }
  void abort(const unisono::Failure&) noexcept override { group_.over = true; }

 private:
  /// Names a transfer by its number within its channel, which both sides count.
  std::string next(int from, int to, std::uint32_t channel) {
    const std::lock_guard lock(mutex_);  // messages may begin while a collective does
    const auto number = numbers_[{from, to, channel}]++;
    return std::to_string(from) + "-" + std::to_string(to) + "/" + std::to_string(channel) + "/" + std::to_string(number);
  }

  Group group_;
  int rank_;
  std::mutex mutex_;
  std::map<std::tuple<int, int, std::uint32_t>, std::uint64_t> numbers_;
};

std::unique_ptr<unisono::Engine> make(const unisono::EngineOptions& options) { return std::make_unique<StoreEngine>(options); }

}  // namespace

UNISONO_PLUGIN {
  static const unisono::Plugin plugin{.name = "store", .about = "an example: bytes go through the store", .make = make};
  return &plugin;
}
