#include "backends/spanning/stages.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>

#include <fmt/format.h>

#include "engine/bell.h"
#include "engine/cooperative/ballots.h"
#include "ground/error_text.h"
#include "unisono/error.h"

namespace unisono::backends {
namespace {

constexpr auto time_to_notice = std::chrono::milliseconds(1000);

std::string list(const std::size_t* counts, std::size_t n) {
  constexpr std::size_t most = 32;
  std::string text = "[";
  for (std::size_t i = 0; i < std::min(n, most); ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", counts[i]);
  text += n > most ? ", …]" : "]";
  return text;
}

[[noreturn]] void throw_mismatch(const CollectiveCall& call, int rank, const engine::Decision& decision) {
  ErrorInfo info;
  info.operation = name_of(call);
  info.sequence = call.sequence;
  info.rank = rank;
  info.culprit = decision.culprit();
  info.hint = engine::mismatch_hint;
  throw engine::Disagreement(engine::describe(decision, decision.blames(rank)), std::move(info), decision.ranks);
}

}  // namespace

Blame::Blame(const std::exception_ptr& error, const std::string& engine, std::function<std::optional<Failure>()> look)
    : unexplained_{.kind = Failure::Kind::peer_failed,
                   .cause = PeerFailed::Cause::disconnected,
                   .culprit = -1,
                   .missing = {},
                   .message = fmt::format("{} failed: {}", engine, ground::message_of(error))},
      look_(std::move(look)),
      since_(ground::Clock::now()) {}

bool Blame::advance() {
  if (auto failure = look_()) throw GroupFailure(std::move(*failure));
  if (ground::Clock::now() - since_ >= time_to_notice) throw GroupFailure(unexplained_);
  return false;
}

bool Watched::advance() {
  poll_();
  if (failed_) return task_->advance();
  try {
    if (!task_) task_ = make_();
    return task_->advance();
  } catch (const std::exception&) {
    failed_ = true;
    task_ = explain_(std::current_exception());
  }
  return task_->advance();
}

bool Explained::advance() {
  try {
    return task_->advance();
  } catch (const Mismatch&) {
    throw;
  } catch (const GroupFailure&) {
    throw;
  } catch (const std::exception&) {
    task_ = explain_(std::current_exception());
  }
  return task_->advance();
}

bool EitherSource::advance() {
  // One that has begun to take a message knows its source, and keeps it.
  if (here_ && here_->advance()) return elsewhere_.reset(), true;
  if (here_ && here_->arrival().source >= 0) elsewhere_.reset();
  if (elsewhere_ && elsewhere_->advance()) return here_.reset(), true;
  if (elsewhere_ && elsewhere_->arrival().source >= 0) here_.reset();
  return false;
}

std::vector<int> EitherSource::waiting_for() const {
  std::vector<int> ranks = here_ ? here_->waiting_for() : std::vector<int>();
  if (elsewhere_) {
    const auto more = elsewhere_->waiting_for();
    ranks.insert(ranks.end(), more.begin(), more.end());
  }
  return ranks;
}

struct Worker::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::function<void()> job;
  bool busy = false;
  bool stop = false;
};

class Worker::Call final : public Task {
 public:
  Call(std::shared_ptr<Shared> shared, std::shared_ptr<Engine> engine, const CollectiveCall& call, engine::Bell* bell,
       const std::function<void()>& give_up)
      : shared_(std::move(shared)), call_(call), give_up_(give_up) {
    const std::lock_guard lock(shared_->mutex);
    shared_->busy = true;
    shared_->job = [this, engine = std::move(engine), bell] {
      try {
        engine->run(call_);
      } catch (...) {
        error_ = std::current_exception();
      }
      done_.store(true, std::memory_order_seq_cst);
      if (bell != nullptr) bell->ring();
    };
    shared_->changed.notify_all();
  }
  ~Call() override {
    if (!done_.load(std::memory_order_acquire)) give_up_();
    std::unique_lock lock(shared_->mutex);
    shared_->changed.wait(lock, [&] { return !shared_->busy; });
  }
  bool advance() override {
    if (!done_.load(std::memory_order_acquire)) return false;
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
    return true;
  }
  std::vector<int> waiting_for() const override { return {}; }

 private:
  std::shared_ptr<Shared> shared_;
  CollectiveCall call_;
  const std::function<void()>& give_up_;
  std::atomic<bool> done_{false};
  std::exception_ptr error_;
};

Worker::Worker(engine::Bell* bell, std::function<void()> give_up)
    : shared_(std::make_shared<Shared>()), bell_(bell), give_up_(std::move(give_up)), process_(::getpid()) {
  thread_ = ground::Thread("asynchronous calls of an engine that blocks", [shared = shared_] {
    std::unique_lock lock(shared->mutex);
    for (;;) {
      shared->changed.wait(lock, [&] { return shared->stop || shared->job; });
      if (!shared->job) return;
      const auto job = std::exchange(shared->job, nullptr);
      lock.unlock();
      job();
      lock.lock();
      shared->busy = false;
      shared->changed.notify_all();
    }
  });
}

Worker::~Worker() {
  if (::getpid() != process_) return;  // a child of fork has no such thread
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->stop = true;
  }
  shared_->changed.notify_all();
  thread_.join();
}

std::unique_ptr<Task> Worker::run(std::shared_ptr<Engine> engine, const CollectiveCall& call) {
  return std::make_unique<Call>(shared_, std::move(engine), call, bell_, give_up_);
}

CountsComparison compare_counts(const CollectiveCall& call, int rank, int size, Scratch& scratch) {
  const bool both = call.operation == Operation::all_to_all_v;
  const auto n = static_cast<std::size_t>(size);
  const std::size_t width = both ? 2 * n : n;
  auto* mine = reinterpret_cast<std::size_t*>(scratch.take(width * sizeof(std::size_t)));
  auto* all = reinterpret_cast<std::size_t*>(scratch.take(n * width * sizeof(std::size_t)));
  std::copy(call.counts.begin(), call.counts.end(), mine);
  if (both) std::copy(call.recv_counts.begin(), call.recv_counts.end(), mine + n);
  CountsComparison comparison;
  comparison.gather.operation = Operation::all_gather;
  comparison.gather.in = Tensor(mine, DType::uint64, width);
  comparison.gather.out = Tensor(all, DType::uint64, n * width);
  comparison.gather.count = width;
  comparison.gather.sequence = call.sequence;
  comparison.judge = [call, rank, n, width, both, all] {
    if (both) {
      std::vector<engine::Conflict> conflicts;
      for (std::size_t from = 0; from < n; ++from) {
        for (std::size_t to = 0; to < n; ++to) {
          const std::size_t sent = all[from * width + to], expected = all[to * width + n + from];
          if (sent == expected) continue;
          conflicts.push_back({.a = static_cast<int>(from),
                               .b = static_cast<int>(to),
                               .text = fmt::format("rank {} sends {} elements to rank {}, which expects {}", from, sent, to, expected)});
        }
      }
      if (!conflicts.empty()) throw_mismatch(call, rank, engine::decide(conflicts, static_cast<int>(n)));
      return;
    }
    std::vector<engine::Ballot> ballots;
    for (std::size_t r = 0; r < n; ++r) {
      const std::size_t* given = all + r * width;
      ballots.push_back({.rank = static_cast<int>(r),
                         .key = std::string(reinterpret_cast<const char*>(given), width * sizeof(std::size_t)),
                         .call = "gives the counts " + list(given, n)});
    }
    const bool same = std::ranges::all_of(ballots, [&](const engine::Ballot& ballot) { return ballot.key == ballots.front().key; });
    if (!same) throw_mismatch(call, rank, engine::decide(ballots));
  };
  return comparison;
}

void copy_own(const CollectiveCall& call) {
  const std::size_t bytes = std::min(call.in.bytes(), call.out.bytes());
  if (bytes > 0 && call.in.data() != call.out.data()) std::memmove(call.out.data(), call.in.data(), bytes);
}

}  // namespace unisono::backends
