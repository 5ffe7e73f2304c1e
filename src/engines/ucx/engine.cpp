#include "engines/ucx/engine.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/deadline.h"
#include "engines/ucx/worker.h"
#include "unisono/error.h"

namespace unisono::engines::ucx {
namespace {

/// Addresses in one value of the store: a few hundred bytes each.
constexpr int addresses_in_one_value = 256;

std::string piece_key(int first) { return fmt::format("addresses/{}", first); }

/// Waits for a key of a rank.
std::string value_of(const EngineOptions& options, const std::string& key, int rank, const base::Deadline& deadline) {
  try {
    return options.store->get(key, deadline.left());
  } catch (const Timeout&) {
    throw Timeout(fmt::format("rank {} did not give its address for ucx within {} ms", rank, options.timeout.count()),
                  {.operation = "initialize", .group = options.group_name, .rank = options.rank, .culprit = rank}, {rank});
  }
}

/// Returns the addresses of all ranks. Rank 0 collects them, so that each rank makes few requests to the store.
std::vector<std::string> exchange_addresses(const EngineOptions& options, const std::string& own, const base::Deadline& deadline) {
  std::vector<std::string> addresses;
  options.store->set(fmt::format("address/{}", options.rank), own);
  for (int first = 0; first < options.size(); first += addresses_in_one_value) {
    const int end = std::min(first + addresses_in_one_value, options.size());
    if (options.rank == 0) {
      base::ByteWriter piece;
      for (int r = first; r < end; ++r) piece.text(value_of(options, fmt::format("address/{}", r), r, deadline));
      options.store->set(piece_key(first), piece.bytes());
    }
    const std::string piece = value_of(options, piece_key(first), 0, deadline);
    base::ByteReader reader(piece);
    for (int r = first; r < end; ++r) addresses.emplace_back(reader.text());
    const bool is_complete = reader.complete() && std::ranges::none_of(addresses, &std::string::empty);
    if (!is_complete) throw ProtocolError("the store's addresses of a ucx group are not its members'", {.group = options.group_name});
  }
  return addresses;
}

/// Returns when all ranks have connected: a rank that ends at once must not be gone before.
void wait_for_all(const EngineOptions& options, Worker& worker, const base::Deadline& deadline) {
  constexpr std::chrono::milliseconds slice{20};  // between two looks at what others need of this rank to connect
  const std::string key = "all are connected";
  if (options.store->add("connected", 1) == options.size()) options.store->set(key, "");
  for (;;) {
    worker.look();
    try {
      options.store->get(key, std::min(slice, deadline.left()));
      return;
    } catch (const Timeout&) {
      if (!deadline.passed()) continue;
      throw Timeout(fmt::format("not all ranks have connected by ucx within {} ms", options.timeout.count()),
                    {.operation = "initialize", .group = options.group_name, .rank = options.rank});
    }
  }
}

/// A send or a receive of the engine.
class TransferTask final : public Task {
 public:
  TransferTask(std::shared_ptr<Worker> worker, Transfer::Kind kind, void* memory, std::size_t bytes, int peer, std::uint32_t channel)
      : worker_(std::move(worker)), transfer_(kind, peer, bytes) {
    worker_->start(transfer_, memory, channel);
  }
  ~TransferTask() override { worker_->drop(transfer_); }
  TransferTask(const TransferTask&) = delete;
  TransferTask& operator=(const TransferTask&) = delete;

  bool advance() override { return worker_->advance(transfer_); }
  std::vector<int> waiting_for() const override { return {transfer_.peer}; }
  bool wakes_waiter() const override { return worker_->can_notify(); }

 private:
  const std::shared_ptr<Worker> worker_;
  Transfer transfer_;
};

class UcxEngine final : public Engine {
 public:
  explicit UcxEngine(const EngineOptions& options) : rank_(options.rank), size_(options.size()) {
    if (size_ < 2) return;
    const base::Deadline deadline(options.timeout);
    worker_ = std::make_shared<Worker>(options);
    worker_->connect(exchange_addresses(options, worker_->address(), deadline), deadline);
    wait_for_all(options, *worker_, deadline);
  }
  ~UcxEngine() override {
    if (worker_) worker_->abort("the engine has ended");
  }
  UcxEngine(const UcxEngine&) = delete;
  UcxEngine& operator=(const UcxEngine&) = delete;

  std::string_view name() const noexcept override { return "ucx"; }
  bool has_channels() const noexcept override { return true; }
  std::unique_ptr<Task> start_send(const void* data, std::size_t bytes, int peer, std::uint32_t channel) override {
    return transfer(Transfer::Kind::send, const_cast<void*>(data), bytes, peer, channel);
  }
  std::unique_ptr<Task> start_recv(void* data, std::size_t bytes, int peer, std::uint32_t channel) override {
    return transfer(Transfer::Kind::receive, data, bytes, peer, channel);
  }
  std::unique_ptr<Task> start_discard(std::size_t bytes, int peer, std::uint32_t channel) override {
    return transfer(Transfer::Kind::discard, nullptr, bytes, peer, channel);
  }
  std::uint32_t largest_channel() const noexcept override { return greeting_channel - 1; }

  void abort(const Failure& failure) noexcept override {
    if (worker_) worker_->abort(failure.message, failure.culprit);
  }
  void leave() override {
    if (worker_) worker_->leave();
  }

 private:
  std::unique_ptr<Task> transfer(Transfer::Kind kind, void* memory, std::size_t bytes, int peer, std::uint32_t channel) {
    if (!worker_ || peer == rank_ || peer < 0 || peer >= size_)
      throw InvalidArgument(fmt::format("the ucx engine has no channel with rank {}", peer));
    return std::make_unique<TransferTask>(worker_, kind, memory, bytes, peer, channel);
  }

  const int rank_;
  const int size_;
  std::shared_ptr<Worker> worker_;  // null in a group of one
};

}  // namespace

std::unique_ptr<Engine> make_engine(const EngineOptions& options) { return std::make_unique<UcxEngine>(options); }

}  // namespace unisono::engines::ucx
