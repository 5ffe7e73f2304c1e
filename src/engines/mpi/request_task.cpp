#include "engines/mpi/request_task.h"

#include <sched.h>

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

namespace unisono::engines::mpi {
namespace {

/// Bytes of one message; longer ones are sent as several, which arrive in their order.
constexpr std::size_t longest_message = std::size_t{1} << 30;

}  // namespace

// A pending request belongs to a group that is over, and MPI writes into its memory whenever another call of MPI brings it the data. Only receives
// can be cancelled. A collective that all members have begun ends by itself, so it is given the time. If it does not end, nobody calls MPI in this
// process again.
void RequestTask::settle() noexcept {
  communicator_->forget(*this);
  if (next_ == requests_.size() || !Library::is_of_this_process()) return;
  Library& library = communicator_->library();
  if (library.may_call() && Library::is_joined() && ends_in_time()) return;
  library.leave_behind();
  if (is_written_by_mpi()) {
    library.give_up(
        fmt::format("MPI cannot be used any more: a call of group {} was given up, and MPI may still write into its memory", communicator_->name()));
  }
}

bool RequestTask::ends_in_time() noexcept {
  if (communicator_->library().is_given_up()) return false;
  if (is_receive()) {
    const auto lock = communicator_->library().lock();
    for (std::size_t i = next_; i < requests_.size(); ++i) MPI_Cancel(&requests_[i]);
  }
  for (const auto end = communicator_->end_of_patience(); next_ < requests_.size();) {
    int is_done = 0;
    const auto lock = communicator_->library().lock();
    const int code = MPI_Test(&requests_[next_], &is_done, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS || is_done != 0) {
      ++next_;
      continue;
    }
    if (communicator_->library().is_given_up() || std::chrono::steady_clock::now() > end) return false;
    ::sched_yield();
  }
  return true;
}

void RequestTask::begin() {
  begun_ = true;
  communicator_->require_sound();
  issue(requests_);
}

bool RequestTask::advance() {
  if (done_) return true;
  Library& library = communicator_->library();
  if (!library.may_call()) return false;  // the thread that may call MPI advances it when it waits
  communicator_->require_sound();
  const auto lock = library.lock();
  if (!begun_) communicator_->begin_put_off();
  if (!begun_) begin();
  for (; next_ < requests_.size(); ++next_) {
    int is_done = 0;
    const int code = MPI_Test(&requests_[next_], &is_done, MPI_STATUS_IGNORE);
    if (code == MPI_SUCCESS && is_done == 0) return false;
    if (code != MPI_SUCCESS) ++next_;  // failed, and so over
    check(code, "MPI_Test");
  }
  done_ = true;
  finish();
  return true;
}

std::vector<int> CollectiveTask::waiting_for() const {
  std::vector<int> others;
  const Members& members = communicator().members();
  for (int r = 0; r < members.size; ++r) {
    if (r != members.rank) others.push_back(r);
  }
  return others;
}

void Transfer::issue(std::vector<MPI_Request>& requests) {
  auto* const memory = static_cast<std::byte*>(plan_.data);
  const MPI_Comm comm = communicator().members().comm;
  std::size_t begin = 0;
  do {
    const int n = static_cast<int>(std::min(longest_message, plan_.bytes - begin));
    MPI_Request request = MPI_REQUEST_NULL;
    if (plan_.sends) check(MPI_Isend(memory + begin, n, MPI_BYTE, plan_.peer, plan_.tag, comm, &request), "MPI_Isend");
    else check(MPI_Irecv(memory + begin, n, MPI_BYTE, plan_.peer, plan_.tag, comm, &request), "MPI_Irecv");
    requests.push_back(request);
    begin += longest_message;
  } while (begin < plan_.bytes);
}

}  // namespace unisono::engines::mpi
