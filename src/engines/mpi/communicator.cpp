#include "engines/mpi/communicator.h"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

#include "engines/mpi/exit_timer.h"
#include "base/hash.h"

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

void Communicator::put_off(Postponed& operation) {
  const std::lock_guard lock(put_off_mutex_);
  put_off_.push_back(&operation);
}

void Communicator::forget(Postponed& operation) noexcept {
  if (library_.access() != Library::Access::main_thread) return;
  const std::lock_guard lock(put_off_mutex_);
  std::erase(put_off_, &operation);
}

void Communicator::begin_put_off() {
  if (library_.access() != Library::Access::main_thread) return;
  const std::lock_guard lock(put_off_mutex_);
  while (!put_off_.empty()) {
    Postponed* const operation = put_off_.front();
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

}  // namespace unisono::engines::mpi
