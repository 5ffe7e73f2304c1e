// Gloo over TCP as an engine, with those of our collectives that Gloo has. Reductions use a ring: every element is combined on one rank and sent to
// the others, so all get the same bits.
#include <gloo/allgather.h>
#include <gloo/allgatherv.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/alltoallv.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/common/error.h>
#include <gloo/common/logging.h>
#include <gloo/gather.h>
#include <gloo/reduce.h>
#include <gloo/scatter.h>
#include <signal.h>

#include <cstring>
#include <ctime>

#include "engines/gloo/meeting.h"
#include "unisono/engine.h"
#include "unisono/error.h"

namespace unisono::engines {
namespace {

using Bytes = std::uint8_t;

/// Memory for shares that a rank combines without a buffer for them. It is kept, since the first touch of new memory costs more than the combination.
class Room {
 public:
  void* of(std::size_t bytes) {
    if (bytes > bytes_) {
      memory_.reset();
      bytes_ = 0;
      memory_.reset(new std::byte[bytes]);
      bytes_ = bytes;
    }
    return memory_.get();
  }

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::size_t bytes_ = 0;
};

/// Blocks SIGPIPE: Gloo writes into sockets whose other end may be gone, without a flag against that signal.
class NoBrokenPipe {
 public:
  NoBrokenPipe() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoBrokenPipe() {
    if (sigismember(&before_, SIGPIPE) != 0) return;  // the thread that blocked it deals with it
    const timespec now{};
    while (sigtimedwait(&pipe_, nullptr, &now) > 0) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoBrokenPipe(const NoBrokenPipe&) = delete;
  NoBrokenPipe& operator=(const NoBrokenPipe&) = delete;

 private:
  sigset_t pipe_, before_;
};

/// A call, and what Gloo needs beside it.
struct Job {
  Job(const std::shared_ptr<gloo::Context>& of_group, const CollectiveCall& given, Room& of_engine)
      : context(of_group), call(given), room(of_engine), in(static_cast<Bytes*>(call.in.data())), out(static_cast<Bytes*>(call.out.data())) {}
  bool is_root() const { return context->rank == call.root; }
  std::size_t element() const { return size_of(call.in.dtype()); }
  /// Returns counts as bytes.
  template <class Number>
  std::vector<Number> lengths(const Counts& counts) const {
    std::vector<Number> bytes;
    for (const std::size_t count : counts) bytes.push_back(static_cast<Number>(count * element()));
    return bytes;
  }

  const std::shared_ptr<gloo::Context>& context;
  const CollectiveCall& call;
  Room& room;
  Bytes* const in;
  Bytes* const out;
};

// Elements of which Gloo only knows the size.
template <std::size_t Size>
struct Opaque {
  std::byte bytes[Size];
};

/// Calls `work` with an element type of that size.
template <class F>
void with_element(std::size_t size, F&& work) {
  switch (size) {
    case 1: return work(static_cast<Opaque<1>*>(nullptr));
    case 2: return work(static_cast<Opaque<2>*>(nullptr));
    case 4: return work(static_cast<Opaque<4>*>(nullptr));
    case 8: return work(static_cast<Opaque<8>*>(nullptr));
    default: return work(static_cast<Opaque<16>*>(nullptr));
  }
}

/// Returns a function for out = a op b, where `out` may be `a`.
std::function<void(void*, const void*, const void*, std::size_t)> function_of(const CollectiveCall& call) {
  const DType dtype = call.in.dtype();
  const ReduceOp op = call.op == ReduceOp::avg ? ReduceOp::sum : call.op;
  return [dtype, op, custom = call.custom](void* out, const void* a, const void* b, std::size_t count) {
    if (out != a) std::memcpy(out, a, count * size_of(dtype));
    if (custom) custom->combine(out, b, count);
    else combine(dtype, op, out, b, count);
  };
}

/// Reduces into `out`, and completes an average there if this rank gets the result. `prepare` gives the options what the others do not have.
template <class Options>
void reduce_into(const Job& job, void* out, bool has_result, const auto& prepare, void (*reduce)(Options&)) {
  with_element(job.element(), [&]<class T>(T*) {
    Options options(job.context);
    prepare(options);
    if (job.call.in.data() != out) options.setInput(static_cast<T*>(job.call.in.data()), job.call.count);
    options.setOutput(static_cast<T*>(out), job.call.count);
    options.setReduceFunction(function_of(job.call));
    reduce(options);
  });
  if (has_result && job.call.op == ReduceOp::avg && !job.call.custom)
    divide(job.call.out.dtype(), out, static_cast<std::size_t>(job.call.out.numel()), job.context->size);
}

void all_reduce(const Job& job) {
  const auto by_ring = [](gloo::AllreduceOptions& options) { options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING); };
  reduce_into<gloo::AllreduceOptions>(job, job.out, true, by_ring, [](auto& options) { gloo::allreduce(options); });
}

void reduce(const Job& job) {
  void* const out = job.is_root() ? job.out : job.room.of(job.call.in.bytes());
  const auto to_root = [&job](gloo::ReduceOptions& options) { options.setRoot(job.call.root); };
  reduce_into<gloo::ReduceOptions>(job, out, job.is_root(), to_root, [](auto& options) { gloo::reduce(options); });
}

void broadcast(const Job& job) {
  const TensorView& own = job.is_root() ? job.call.in : job.call.out;
  gloo::BroadcastOptions options(job.context);
  options.setOutput(static_cast<Bytes*>(own.data()), own.bytes());
  options.setRoot(job.call.root);
  gloo::broadcast(options);
  const bool is_copied = job.is_root() && job.out != nullptr && job.out != job.in && job.call.out.bytes() == job.call.in.bytes();
  if (is_copied) std::memcpy(job.out, job.in, job.call.in.bytes());
}

void all_gather(const Job& job) {
  gloo::AllgatherOptions options(job.context);
  if (job.in != job.out + static_cast<std::size_t>(job.context->rank) * job.call.in.bytes()) options.setInput(job.in, job.call.in.bytes());
  options.setOutput(job.out, job.call.out.bytes());
  gloo::allgather(options);
}

void all_gather_v(const Job& job) {
  const std::size_t before = job.call.counts.before(static_cast<std::size_t>(job.context->rank));
  gloo::AllgathervOptions options(job.context);
  if (job.in != job.out + before * job.element()) options.setInput(job.in, job.call.in.bytes());
  options.setOutput(job.out, job.lengths<std::size_t>(job.call.counts));
  gloo::allgatherv(options);
}

void gather(const Job& job) {
  gloo::GatherOptions options(job.context);
  options.setInput(job.in, job.call.in.bytes());
  if (job.is_root()) options.setOutput(job.out, job.call.out.bytes());
  options.setRoot(job.call.root);
  gloo::gather(options);
}

void scatter(const Job& job) {
  const std::size_t block = job.call.out.bytes();
  std::vector<Bytes*> blocks;
  for (int r = 0; job.is_root() && r < job.context->size; ++r) blocks.push_back(job.in + static_cast<std::size_t>(r) * block);
  gloo::ScatterOptions options(job.context);
  if (job.is_root()) options.setInputs(std::move(blocks), block);
  options.setOutput(job.out, block);
  options.setRoot(job.call.root);
  gloo::scatter(options);
}

void all_to_all(const Job& job) {
  gloo::AlltoallOptions options(job.context);
  options.setInput(job.in, job.call.in.bytes());
  options.setOutput(job.out, job.call.out.bytes());
  gloo::alltoall(options);
}

void all_to_all_v(const Job& job) {
  gloo::AlltoallvOptions options(job.context);
  options.setInput(job.in, job.lengths<std::int64_t>(job.call.counts));
  options.setOutput(job.out, job.lengths<std::int64_t>(job.call.recv_counts));
  gloo::alltoallv(options);
}

void barrier(const Job& job) {
  gloo::BarrierOptions options(job.context);
  gloo::barrier(options);
}

/// The operations that Gloo has, and what carries them out.
constexpr OperationMap<void (*)(const Job&)> own_operations{
    {Operation::barrier, barrier},           {Operation::all_reduce, all_reduce}, {Operation::reduce, reduce},
    {Operation::broadcast, broadcast},       {Operation::all_gather, all_gather}, {Operation::gather, gather},
    {Operation::scatter, scatter},           {Operation::all_to_all, all_to_all}, {Operation::all_gather_v, all_gather_v},
    {Operation::all_to_all_v, all_to_all_v},
};

/// Carries out any collective of one rank.
void copy_alone(const CollectiveCall& call) {
  if (call.out.bytes() == 0 || call.in.bytes() == 0) return;
  if (call.out.data() != call.in.data()) std::memcpy(call.out.data(), call.in.data(), call.in.bytes());
  if (!reduces(call.operation) || call.custom) return;
  // Truth values are normalised, also a single element; all else stays as it is.
  const bool is_boolean = call.in.dtype() == DType::boolean;
  if (!is_boolean && call.op != ReduceOp::land && call.op != ReduceOp::lor) return;
  combine(call.in.dtype(), is_boolean ? ReduceOp::bor : call.op, call.out.data(), call.out.data(), call.count);
}

class GlooEngine final : public Engine {
 public:
  explicit GlooEngine(const EngineOptions& options) : rank_(options.rank), size_(options.size()) {
    if (size_ > 1) meeting_ = meet(options);
  }

  std::string_view name() const noexcept override { return "gloo"; }
  bool blocks() const noexcept override { return true; }

  /// Partial results travel in the dtype itself: with more than two ranks halves would be rounded more than once, and sums for an average of integers
  /// could overflow.
  bool offers(const CollectiveCall& call) const override {
    if (own_operations[call.operation] == nullptr) return false;
    if (!reduces(call.operation) || call.custom) return true;
    const DType dtype = call.in.dtype();
    if (call.op == ReduceOp::avg) return dtype >= DType::float32;  // float32, float64, complex64, complex128
    return size_ <= 2 || (dtype != DType::float16 && dtype != DType::bfloat16);
  }

  void run(const CollectiveCall& call) override {
    // Every rank knows that a call without elements is empty, so Gloo is not needed.
    if (call.operation != Operation::barrier && call.operation != Operation::all_to_all_v && call.count == 0) return;
    if (size_ == 1) return copy_alone(call);
    const auto carry_out = own_operations[call.operation];
    if (carry_out == nullptr) return Engine::run(call);  // not offered: throws
    const NoBrokenPipe guard;
    try {
      carry_out(Job(meeting_.context, call, room_));
    } catch (const gloo::Exception& error) {
      fail(error);
    } catch (const gloo::EnforceNotMet& error) {
      fail(error);
    } catch (...) {
      // The caller's own reduction has thrown. The connections are ended, since the others wait for its result.
      meeting_.mesh->abort();
      throw;
    }
  }

  void abort(const Failure&) noexcept override {
    if (meeting_.mesh) meeting_.mesh->abort();
  }

 private:
  [[noreturn]] void fail(const std::exception& error) {
    const std::string text = text_of(error);
    const int culprit = meeting_.mesh->rank_in(text);
    meeting_.mesh->abort();
    if (culprit < 0) throw PeerFailed("gloo: " + text, {.rank = rank_});
    throw PeerFailed("gloo's connection with rank " + std::to_string(culprit) + " broke: " + text, {.rank = rank_, .culprit = culprit});
  }

  const int rank_, size_;
  Meeting meeting_;  // empty in a group of one
  Room room_;
};

}  // namespace
}  // namespace unisono::engines

UNISONO_PLUGIN {
  using namespace unisono;
  static const Plugin plugin{
      .name = "gloo",
      .about = "Gloo 0.5.0 over TCP",
      .traits = [] { return EngineTraits{}; },
      .make = [](const EngineOptions& options) -> std::unique_ptr<Engine> { return std::make_unique<engines::GlooEngine>(options); }};
  return &plugin;
}
