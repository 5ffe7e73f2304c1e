#include "engines/mpi/engine.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>

#include <fmt/format.h>

#include "engines/mpi/request_task.h"
#include "engines/mpi/exit_timer.h"
#include "base/hash.h"
#include "unisono/detail/floating_point.h"
#include "unisono/error.h"

namespace unisono::engines::mpi {
namespace {

using namespace std::chrono_literals;

/// The time in which a call that waits within MPI, or a request of its, may end when its group is over, since its peers may have come.
constexpr auto patience = 500ms;

/// The time that freeing a communicator, which is collective, may take.
constexpr auto free_limit = 10s;

// Returns a tag that is equal on all members, and rarely that of another group that is made at the same time.
int tag_of_key(const std::string& key, int largest) {
  constexpr int most_tags = 1 << 20;
  return static_cast<int>(base::stable_hash(key) % static_cast<std::uint64_t>(std::min(largest, most_tags)));
}

/// Frees an MPI group.
struct GroupHandle {
  MPI_Group group = MPI_GROUP_NULL;
  ~GroupHandle() {
    if (group != MPI_GROUP_NULL) MPI_Group_free(&group);
  }
};

/// Makes the parent of a new communicator, which may be the program's own, return errors while the communicator is made.
class ErrorsReturn {
 public:
  explicit ErrorsReturn(MPI_Comm comm) : comm_(comm) {
    MPI_Comm_get_errhandler(comm_, &before_);
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  }
  ~ErrorsReturn() {
    MPI_Comm_set_errhandler(comm_, before_);
    MPI_Errhandler_free(&before_);
  }
  ErrorsReturn(const ErrorsReturn&) = delete;
  ErrorsReturn& operator=(const ErrorsReturn&) = delete;

 private:
  MPI_Comm comm_;
  MPI_Errhandler before_ = MPI_ERRHANDLER_NULL;
};

}  // namespace

// ---- the communicator ---------------------------------------------------------------------------------------

Communicator::Communicator(Library& library, const EngineOptions& options)
    : library_(library), members_{MPI_COMM_NULL, options.rank, options.size()}, name_(options.group_name) {
  library_.require_call();
  const auto lock = library_.lock();
  const ErrorsReturn errors(MPI_COMM_WORLD);
  GroupHandle world, group;
  check(MPI_Comm_group(MPI_COMM_WORLD, &world.group), "MPI_Comm_group");
  check(MPI_Group_incl(world.group, options.size(), options.global_ranks.data(), &group.group), "MPI_Group_incl");
  const ExitTimer overdue(options.timeout, "MPI_Comm_create_group");
  check(MPI_Comm_create_group(MPI_COMM_WORLD, group.group, tag_of_key(options.key, library_.largest_tag()), &members_.comm), "MPI_Comm_create_group");
  check(MPI_Comm_set_errhandler(members_.comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
}

void Communicator::require_sound() const {
  if (aborted_.load(std::memory_order_acquire)) [[unlikely]] {
    const std::lock_guard lock(mutex_);
    throw std::runtime_error(why_);
  }
  if (library_.is_given_up()) [[unlikely]]
    throw std::runtime_error(library_.given_up());
}

void Communicator::abort(const Failure& failure) noexcept {
  const bool is_dead =
      failure.kind == Failure::Kind::peer_failed && (failure.cause == PeerFailed::Cause::killed || failure.cause == PeerFailed::Cause::exited);
  if (is_dead) library_.give_up("MPI cannot be used any more: " + failure.message);
  std::unique_lock lock(mutex_);
  why_ = failure.message;
  aborted_ = true;
  if (returned_.wait_for(lock, patience, [this] { return in_mpi_ == 0; })) return;
  end_process(fmt::format("rank {} of group {}: {}; MPI does not give up the call that is under way, so this process ends", members_.rank, name_,
                          failure.message));
}

void Communicator::leave() noexcept {
  if (members_.comm == MPI_COMM_NULL || !library_.may_call() || !Library::is_joined() || library_.is_given_up() || aborted_) return;
  const auto lock = library_.lock();
  const ExitTimer overdue(free_limit, "MPI_Comm_free");
  MPI_Comm_free(&members_.comm);
}

std::chrono::steady_clock::time_point Communicator::end_of_patience() noexcept {
  const std::lock_guard lock(mutex_);
  if (end_of_patience_ == std::chrono::steady_clock::time_point{}) end_of_patience_ = std::chrono::steady_clock::now() + patience;
  return end_of_patience_;
}

void Communicator::put_off(RequestTask& operation) {
  const std::lock_guard lock(put_off_mutex_);
  put_off_.push_back(&operation);
}

void Communicator::forget(RequestTask& operation) noexcept {
  if (library_.access() != Library::Access::main_thread) return;
  const std::lock_guard lock(put_off_mutex_);
  std::erase(put_off_, &operation);
}

void Communicator::begin_put_off() {
  if (library_.access() != Library::Access::main_thread) return;
  const std::lock_guard lock(put_off_mutex_);
  while (!put_off_.empty()) {
    RequestTask* const operation = put_off_.front();
    put_off_.pop_front();
    operation->begin();
  }
}

Communicator::InMpi::InMpi(Communicator& communicator) : communicator_(communicator) {
  communicator_.in_mpi_.fetch_add(1);
  try {
    communicator_.require_sound();  // after the line above: either this thread sees the abort, or the aborting thread sees this one
  } catch (...) {
    communicator_.in_mpi_.fetch_sub(1);
    throw;
  }
}

Communicator::InMpi::~InMpi() {
  communicator_.in_mpi_.fetch_sub(1);
  if (!communicator_.aborted_) [[likely]]
    return;
  const std::lock_guard lock(communicator_.mutex_);
  communicator_.returned_.notify_all();
}

// ---- the engine ---------------------------------------------------------------------------------------------

MpiEngine::MpiEngine(const EngineOptions& options)
    : communicator_(std::make_shared<Communicator>(Library::join(options.timeout), options)), crowded_(options.crowded) {
  const Library::Access access = communicator_->library().access();
  blocks_ = access == Library::Access::main_thread || (access == Library::Access::any && !crowded_);
}

MpiEngine::~MpiEngine() = default;

void MpiEngine::leave() { communicator_->leave(); }

bool MpiEngine::offers(const CollectiveCall& call) const {
  if (call.operation == Operation::send || call.operation == Operation::recv) return false;
  if (!reduces(call.operation)) return true;
  if (call.custom) return false;  // an MPI operation carries no state, and no exception may pass through it
  const DType dtype = call.in.dtype();
  const bool is_half = dtype == DType::float16 || dtype == DType::bfloat16;
  if (call.op == ReduceOp::avg) {
    const bool divides = dtype >= DType::float32;
    return divides && call.operation != Operation::scan && call.operation != Operation::exscan;
  }
  // The first rank's prefix is a single element, which MPI copies; here true must become 1.
  const bool truth = dtype == DType::boolean || call.op == ReduceOp::land || call.op == ReduceOp::lor;
  if (truth && (call.operation == Operation::scan || call.operation == Operation::exscan)) return false;
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
