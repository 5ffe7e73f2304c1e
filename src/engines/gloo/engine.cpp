#include "engines/gloo/engine.h"

#include <gloo/allgather.h>
#include <gloo/allgatherv.h>
#include <gloo/alltoall.h>
#include <gloo/alltoallv.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/common/error.h>
#include <gloo/common/logging.h>
#include <gloo/gather.h>
#include <gloo/scatter.h>
#include <signal.h>

#include <cstring>
#include <ctime>

#include "unisono/error.h"

namespace unisono::engines {
namespace {

using Bytes = std::uint8_t;

Bytes* bytes_of(const TensorView& tensor) { return static_cast<Bytes*>(tensor.data()); }

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

/// Returns true for a call without elements, which every rank knows to be empty, so that Gloo is not needed.
bool is_nothing(const CollectiveCall& call) {
  return call.operation != Operation::barrier && call.operation != Operation::all_to_all_v && call.count == 0;
}

void broadcast_on(const std::shared_ptr<gloo::Context>& context, const CollectiveCall& call) {
  const bool is_root = context->rank == call.root;
  Bytes* const in = bytes_of(call.in);
  Bytes* const out = bytes_of(call.out);
  gloo::BroadcastOptions options(context);
  options.setOutput(is_root ? in : out, is_root ? call.in.bytes() : call.out.bytes());
  options.setRoot(call.root);
  gloo::broadcast(options);
  if (is_root && out != nullptr && out != in && call.out.bytes() == call.in.bytes()) std::memcpy(out, in, call.in.bytes());
}

void all_gather_v_on(const std::shared_ptr<gloo::Context>& context, const CollectiveCall& call) {
  Bytes* const in = bytes_of(call.in);
  Bytes* const out = bytes_of(call.out);
  const std::size_t element = size_of(call.in.dtype());
  std::vector<std::size_t> lengths;
  for (const std::size_t count : call.counts) lengths.push_back(count * element);
  gloo::AllgathervOptions options(context);
  if (in != out + call.counts.before(static_cast<std::size_t>(context->rank)) * element) options.setInput(in, call.in.bytes());
  options.setOutput(out, std::move(lengths));
  gloo::allgatherv(options);
}

void scatter_on(const std::shared_ptr<gloo::Context>& context, const CollectiveCall& call) {
  const bool is_root = context->rank == call.root;
  Bytes* const in = bytes_of(call.in);
  const std::size_t block = call.out.bytes();
  std::vector<Bytes*> blocks;
  for (int r = 0; is_root && r < context->size; ++r) blocks.push_back(in + static_cast<std::size_t>(r) * block);
  gloo::ScatterOptions options(context);
  if (is_root) options.setInputs(std::move(blocks), block);
  options.setOutput(bytes_of(call.out), block);
  options.setRoot(call.root);
  gloo::scatter(options);
}

void all_to_all_v_on(const std::shared_ptr<gloo::Context>& context, const CollectiveCall& call) {
  const std::size_t element = size_of(call.in.dtype());
  const auto lengths = [element](const Counts& counts) {
    std::vector<std::int64_t> bytes;
    for (const std::size_t count : counts) bytes.push_back(static_cast<std::int64_t>(count * element));
    return bytes;
  };
  gloo::AlltoallvOptions options(context);
  options.setInput(bytes_of(call.in), lengths(call.counts));
  options.setOutput(bytes_of(call.out), lengths(call.recv_counts));
  gloo::alltoallv(options);
}

}  // namespace

GlooEngine::GlooEngine(const EngineOptions& options) : rank_(options.rank), size_(options.size()) {
  if (size_ > 1) meeting_ = meet(options);
}

bool GlooEngine::offers(const CollectiveCall& call) const {
  switch (call.operation) {
    case Operation::barrier:
    case Operation::broadcast:
    case Operation::all_gather:
    case Operation::gather:
    case Operation::scatter:
    case Operation::all_to_all:
    case Operation::all_gather_v:
    case Operation::all_to_all_v: return true;
    case Operation::all_reduce:
    case Operation::reduce: return can_combine(call, size_);
    case Operation::reduce_scatter:
    case Operation::scan:
    case Operation::exscan:
    case Operation::gather_v:
    case Operation::scatter_v:
    case Operation::reduce_scatter_v:
    case Operation::send:
    case Operation::recv: return false;
  }
  return false;
}

void GlooEngine::run(const CollectiveCall& call) {
  if (is_nothing(call)) return;
  if (size_ == 1) return copy_alone(call);
  const NoBrokenPipe guard;
  try {
    carry_out(call);
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

void GlooEngine::fail(const std::exception& error) {
  const std::string text = text_of(error);
  const int culprit = meeting_.mesh->rank_in(text);
  meeting_.mesh->abort();
  if (culprit < 0) throw PeerFailed("gloo: " + text, {.rank = rank_});
  throw PeerFailed("gloo's connection with rank " + std::to_string(culprit) + " broke: " + text, {.rank = rank_, .culprit = culprit});
}

void GlooEngine::abort(const Failure&) noexcept {
  if (meeting_.mesh) meeting_.mesh->abort();
}

void GlooEngine::carry_out(const CollectiveCall& call) {
  const std::shared_ptr<gloo::Context>& context = meeting_.context;
  const bool is_root = rank_ == call.root;
  Bytes* const in = bytes_of(call.in);
  Bytes* const out = bytes_of(call.out);
  switch (call.operation) {
    case Operation::barrier: {
      gloo::BarrierOptions options(context);
      return gloo::barrier(options);
    }
    case Operation::all_reduce: return all_reduce_on(context, call);
    case Operation::reduce: return reduce_on(context, call, room_);
    case Operation::broadcast: return broadcast_on(context, call);
    case Operation::all_gather: {
      gloo::AllgatherOptions options(context);
      if (in != out + static_cast<std::size_t>(rank_) * call.in.bytes()) options.setInput(in, call.in.bytes());
      options.setOutput(out, call.out.bytes());
      return gloo::allgather(options);
    }
    case Operation::all_gather_v: return all_gather_v_on(context, call);
    case Operation::gather: {
      gloo::GatherOptions options(context);
      options.setInput(in, call.in.bytes());
      if (is_root) options.setOutput(out, call.out.bytes());
      options.setRoot(call.root);
      return gloo::gather(options);
    }
    case Operation::scatter: return scatter_on(context, call);
    case Operation::all_to_all: {
      gloo::AlltoallOptions options(context);
      options.setInput(in, call.in.bytes());
      options.setOutput(out, call.out.bytes());
      return gloo::alltoall(options);
    }
    case Operation::all_to_all_v: return all_to_all_v_on(context, call);
    case Operation::reduce_scatter:
    case Operation::scan:
    case Operation::exscan:
    case Operation::gather_v:
    case Operation::scatter_v:
    case Operation::reduce_scatter_v:
    case Operation::send:
    case Operation::recv: break;
  }
  Engine::run(call);  // not offered: throws
}

}  // namespace unisono::engines
