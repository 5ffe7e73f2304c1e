#include "engines/mpi/request_task.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <functional>

#include <fmt/format.h>

#include "unisono/detail/floating_point.h"

namespace unisono::engines::mpi {
namespace {

/// Bytes of one message; longer ones are sent as several, which arrive in their order.
constexpr std::size_t longest_message = std::size_t{1} << 30;

/// Bytes of input and output up to which MPI always works on copies: they cost nothing beside a collective of that length.
constexpr std::size_t longest_copy = std::size_t{16} << 10;

constexpr std::size_t aligned(std::size_t bytes) {
  return (bytes + alignof(std::max_align_t) - 1) / alignof(std::max_align_t) * alignof(std::max_align_t);
}

}  // namespace

// A pending request belongs to a group that is over, and MPI writes into its memory whenever another call of MPI brings it the data. Only receives
// can be cancelled. A collective that all members have begun ends by itself, so it is given the time. If it does not end, nobody calls MPI in this
// process again, unless the memory is ours and can stay.
bool RequestTask::settle() noexcept {
  communicator_->forget(*this);
  if (next_ == requests_.size()) return true;
  Library& library = communicator_->library();
  const bool is_called_here = Library::is_of_this_process();
  if (is_called_here && library.may_call() && Library::is_joined() && ends_in_time()) return true;
  library.leave_behind();
  if (is_called_here && !has_copy() && kind() != Kind::send) {
    library.give_up(
        fmt::format("MPI cannot be used any more: a call of group {} was given up, and MPI may still write into its memory", communicator_->name()));
  }
  return false;
}

bool RequestTask::ends_in_time() noexcept {
  if (communicator_->library().is_given_up()) return false;
  if (kind() == Kind::receive) {
    const auto lock = communicator_->library().lock();
    for (std::size_t i = next_; i < requests_.size(); ++i) MPI_Cancel(&requests_[i]);
  }
  // Nobody waits for what can stay with MPI.
  for (const auto end = has_copy() ? std::chrono::steady_clock::time_point{} : communicator_->end_of_patience(); next_ < requests_.size();) {
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
  const detail::FixedFloatingPoint fixed;  // MPI computes here
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

// Input and output may overlap, and do so in calls in place: then both are in one copy of all that they cover.
CollectiveTask::Parts::Parts(const Members& members, const CollectiveCall& given) : call(given), collective(members, call) {
  const std::size_t in_bytes = call.in.bytes(), out_bytes = call.out.bytes();
  if (in_bytes + out_bytes > longest_copy && !given.follows_others) return;
  auto* const in = static_cast<std::byte*>(call.in.data());
  auto* const out = static_cast<std::byte*>(call.out.data());
  result = out;
  const bool overlap = in_bytes != 0 && out_bytes != 0 && std::less<>{}(in, out + out_bytes) && std::less<>{}(out, in + in_bytes);
  std::byte* const begin = overlap ? std::min(in, out, std::less<>{}) : in;
  const std::size_t covered =
      overlap ? static_cast<std::size_t>(std::max(in + in_bytes, out + out_bytes, std::less<>{}) - begin) : aligned(in_bytes) + out_bytes;
  copies = std::make_unique<std::byte[]>(covered);
  std::byte* const in_copy = overlap ? copies.get() + (in - begin) : copies.get();
  std::byte* const out_copy = overlap ? copies.get() + (out - begin) : copies.get() + aligned(in_bytes);
  if (in_bytes != 0) std::memcpy(in_copy, in, in_bytes);
  if (out_bytes != 0) std::memcpy(out_copy, out, out_bytes);
  call.in = TensorView(in_bytes == 0 ? call.in.data() : in_copy, call.in.dtype(), static_cast<std::size_t>(call.in.numel()));
  call.out = TensorView(out_bytes == 0 ? call.out.data() : out_copy, call.out.dtype(), static_cast<std::size_t>(call.out.numel()));
}

void CollectiveTask::Parts::copy_back() const {
  if (copies && call.out.numel() != 0) std::memcpy(result, call.out.data(), call.out.bytes());
}

CollectiveTask::~CollectiveTask() {
  if (!settle()) static_cast<void>(parts_.release());  // MPI has the addresses for ever
}

void CollectiveTask::finish() {
  parts_->collective.finish();
  parts_->copy_back();
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
