#include "engines/mpi/engine.h"

#include <sched.h>

#include <stdexcept>

#include <fmt/format.h>

#include "engines/mpi/request_task.h"
#include "unisono/detail/floating_point.h"

namespace unisono::engines::mpi {

MpiEngine::MpiEngine(const EngineOptions& options)
    : communicator_(std::make_shared<Communicator>(Library::join(options.timeout), options)), crowded_(options.crowded) {
  const Library::Access access = communicator_->library().access();
  blocks_ = access == Library::Access::main_thread || (access == Library::Access::any && !crowded_);
}

MpiEngine::~MpiEngine() = default;

void MpiEngine::leave() { communicator_->leave(); }

bool MpiEngine::offers(const CollectiveCall& call) const {
  if (!Collective::has(call.operation)) return false;
  if (!reduces(call.operation)) return true;
  if (call.custom) return false;  // an MPI operation carries no state, and no exception may pass through it
  if (!Collective::has(call.op)) return false;
  const DType dtype = call.in.dtype();
  const bool is_half = dtype == DType::float16 || dtype == DType::bfloat16;
  if (call.op == ReduceOp::avg) {
    const bool divides = dtype >= DType::float32;
    return divides && !is_prefix(call.operation);
  }
  // The first rank's prefix is a single element, which MPI copies; here true must become 1.
  const bool truth = dtype == DType::boolean || call.op == ReduceOp::land || call.op == ReduceOp::lor;
  if (truth && is_prefix(call.operation)) return false;
  // Every sum of two rounds halves, so they are rounded once only between two ranks.
  if (is_half && (call.op == ReduceOp::sum || call.op == ReduceOp::product)) return communicator_->members().size <= 2;
  return true;
}

std::unique_ptr<Task> MpiEngine::start(std::unique_ptr<RequestTask> operation) {
  communicator_->require_sound();
  Library& library = communicator_->library();
  if (!library.may_call()) {
    communicator_->put_off(*operation);
  } else {
    const auto lock = library.lock();
    communicator_->begin_put_off();
    operation->begin();
  }
  return operation;
}

std::unique_ptr<Task> MpiEngine::start(const CollectiveCall& call) { return start(std::make_unique<CollectiveTask>(communicator_, call)); }

void MpiEngine::run(const CollectiveCall& call) {
  communicator_->library().require_call();
  if (!blocks_ || crowded_) {
    // A blocking call would spin while the other ranks need the processor.
    for (const auto task = start(call); !task->advance();) ::sched_yield();
    return;
  }
  const Communicator::InMpi in_mpi(*communicator_);
  const detail::FixedFloatingPoint fixed;
  Collective collective(communicator_->members(), call);
  communicator_->begin_put_off();
  collective.issue(Blocking{});
  collective.finish();
}

std::uint32_t MpiEngine::largest_channel() const noexcept { return static_cast<std::uint32_t>(communicator_->library().largest_tag()); }

int MpiEngine::tag_of(std::uint32_t channel) const {
  const std::uint32_t largest = largest_channel();
  if (channel > largest) {
    throw std::runtime_error(fmt::format("channel {} is beyond the largest tag of this MPI, {}", channel, largest));
  }
  return static_cast<int>(channel);
}

std::unique_ptr<Task> MpiEngine::start_send(const void* data, std::size_t bytes, int peer, std::uint32_t channel) {
  return start(std::make_unique<Transfer>(communicator_, Transfer::Plan{const_cast<void*>(data), bytes, peer, tag_of(channel), true}));
}

std::unique_ptr<Task> MpiEngine::start_recv(void* data, std::size_t bytes, int peer, std::uint32_t channel) {
  return start(std::make_unique<Transfer>(communicator_, Transfer::Plan{data, bytes, peer, tag_of(channel), false}));
}

}  // namespace unisono::engines::mpi
