#include "engines/mpi/library.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <stdexcept>

#include <fmt/format.h>

#include "engines/mpi/exit_timer.h"
#include "unisono/error.h"

namespace unisono::engines::mpi {
namespace {

using namespace std::chrono_literals;

constexpr auto finalize_limit = 10s;

bool flag(int (*ask)(int*)) {
  int answer = 0;
  ask(&answer);
  return answer != 0;
}

int process_of_library = 0;
std::atomic<bool> is_ours{false};

}  // namespace

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) [[likely]]
    return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw std::runtime_error(fmt::format("{} failed: {}", call, std::string_view(text, static_cast<std::size_t>(length))));
}

bool Library::is_joined() { return flag(MPI_Initialized) && !flag(MPI_Finalized); }
bool Library::is_the_programs() { return is_joined() && !is_ours; }
bool Library::is_of_this_process() { return process_of_library == ::getpid(); }

Library& Library::join(std::chrono::milliseconds timeout) {
  static std::mutex joining;
  static Library* instance = nullptr;
  const std::lock_guard lock(joining);
  if (flag(MPI_Finalized)) throw BackendUnavailable("MPI has been finalised in this process, and cannot be initialised again");
  if (instance != nullptr) return *instance;
  const bool ours = !flag(MPI_Initialized);
  if (ours) {
    const ExitTimer overdue(timeout, "MPI_Init_thread");
    int provided = MPI_THREAD_SINGLE;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
  }
  instance = new Library(ours);  // never destroyed: its last use is at exit
  process_of_library = ::getpid();
  is_ours = ours;
  if (ours) ::on_exit(&Library::at_exit, instance);
  return *instance;
}

Library::Library(bool ours) : ours_(ours) {
  // An MPI that we initialised returns errors; of the program's MPI only the communicators that we make do.
  if (ours) {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  }
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
  int provided = MPI_THREAD_SINGLE;
  check(MPI_Query_thread(&provided), "MPI_Query_thread");
  if (provided == MPI_THREAD_MULTIPLE) access_ = Access::any;
  if (provided == MPI_THREAD_SERIALIZED) access_ = Access::one_by_one;
  int* tag = nullptr;
  int found = 0;
  check(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&tag), &found), "MPI_Comm_get_attr");
  if (found != 0 && tag != nullptr) largest_tag_ = *tag;
}

bool Library::is_main_thread() { return flag(MPI_Is_thread_main); }

void Library::require_call() const {
  if (may_call()) return;
  throw InvalidArgument("the program has initialised MPI for one thread only, and this is another one",
                        {.hint = "call from the thread that called MPI_Init, or ask MPI_Init_thread for MPI_THREAD_MULTIPLE"});
}

void Library::give_up(const std::string& why) {
  {
    const std::lock_guard lock(why_mutex_);
    if (why_.empty()) why_ = why;
  }
  given_up_.store(true, std::memory_order_release);
}

std::string Library::given_up() const {
  const std::lock_guard lock(why_mutex_);
  return why_;
}

void Library::at_exit(int status, void* library) {
  auto& self = *static_cast<Library*>(library);
  // An aborted group is no reason to let the other ranks wait in MPI_Finalize. Only after the death of a process it is not called.
  if (status != 0 || !is_of_this_process() || self.given_up_ || self.left_behind_ || !is_joined()) return;
  // The program has done its work, so the exit code is 0 even if MPI does not return.
  const ExitTimer overdue(finalize_limit, "MPI_Finalize", 0);
  MPI_Finalize();
}

}  // namespace unisono::engines::mpi
