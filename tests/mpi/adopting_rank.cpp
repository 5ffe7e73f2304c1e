// A program that uses MPI itself, built once with each kind, and unisono beside it, as its users link it.
//
//   adopting_rank MODE [FILE]
#include <mpi.h>

#include <cstring>
#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "unisono/unisono.h"

namespace {

void expect(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

int sum_of_ranks() { return unisono::all_reduce(unisono::rank() + 1); }

void check_calls(int size) {
  const int expected = size * (size + 1) / 2;
  expect(unisono::backend() == "mpi", "another backend");
  expect(unisono::world_size() == size, "another size");
  expect(sum_of_ranks() == expected, "all_reduce");
  std::vector<float> x(1000, static_cast<float>(unisono::rank() + 1));
  auto work = unisono::all_reduce_async(x);
  work.wait();
  expect(x[999] == static_cast<float>(expected), "all_reduce_async");
  const int next = (unisono::rank() + 1) % size, previous = (unisono::rank() + size - 1) % size;
  std::vector<int> message{unisono::rank()}, received{-1};
  auto sending = unisono::isend(message, unisono::Rank(next));
  auto receiving = unisono::irecv(received, unisono::Rank(previous));
  sending.wait();
  receiving.wait();
  expect(received[0] == previous, "a message");
}

/// Nobody calls initialize, sync or finalize: what the program has formed is found.
void adopt_by_getters() {
  try {
    static_cast<void>(unisono::rank());
    expect(false, "a process that was launched is rank 0 of 1 before there is a job");
  } catch (const unisono::NotInitialized&) {
  }
  MPI_Init(nullptr, nullptr);
  int rank = -1, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (rank == 0) expect(unisono::rank() == 0 && unisono::world_size() == size, "one process alone cannot look");
  MPI_Barrier(MPI_COMM_WORLD);
  expect(unisono::rank() == rank && unisono::world_size() == size && unisono::dist_info().rank == rank, "not the program's job");
  expect(!unisono::is_initialized(), "looking has joined the job");
  expect(sum_of_ranks() == size * (size + 1) / 2, "all_reduce");
  expect(unisono::is_initialized(), "a collective has not joined the job");
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
}

/// The program's MPI, at the level it asks for; it is still the program's afterwards.
void adopt(int level, bool by_sync) {
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, level, &provided);
  expect(provided >= level, "MPI does not grant that");
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (by_sync) unisono::sync();
  else unisono::initialize("mpi");
  expect(unisono::is_initialized() && unisono::world_size() == size, "not the program's job");
  if (!by_sync) check_calls(size);
  unisono::finalize();
  int finalized = 0;
  MPI_Finalized(&finalized);
  expect(finalized == 0, "MPI was finalised");
  if (!by_sync) {
    unisono::initialize("mpi");
    check_calls(size);
    unisono::finalize();
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
}

/// Nobody but the thread that initialised MPI may call it.
void call_from_another_thread() {
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  unisono::initialize("mpi");
  std::string said;
  std::thread([&] {
    try {
      sum_of_ranks();
    } catch (const unisono::Error& error) {
      said = error.what();
    }
  }).join();
  expect(said.find("one thread only") != std::string::npos, said.c_str());
}

void contradict(const std::string& file, const std::string& what) {
  MPI_Init(nullptr, nullptr);
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  unisono::InitOptions options;
  options.backend = "mpi";
  if (what == "file") {
    options.init_method = "file://" + file;
    options.rank = size - 1 - rank;
    options.world_size = size;
  } else {
    options.rank = size - 1 - rank;
  }
  unisono::initialize(options);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  try {
    if (mode == "multiple") adopt(MPI_THREAD_MULTIPLE, false);
    if (mode == "serialized") adopt(MPI_THREAD_SERIALIZED, false);
    if (mode == "funnelled") adopt(MPI_THREAD_FUNNELED, false);
    if (mode == "sync") adopt(MPI_THREAD_MULTIPLE, true);
    if (mode == "getters") adopt_by_getters();
    if (mode == "thread") call_from_another_thread();
    if (mode == "contradict") contradict(argc > 2 ? argv[2] : "", argc > 2 ? "file" : "argument");
    if (mode == "plain") {
      unisono::initialize("mpi");
      check_calls(unisono::world_size());
      unisono::finalize();
    }
  } catch (const unisono::BackendUnavailable& error) {
    std::cerr << std::string("BackendUnavailable: ").append(error.what()).append("\n");
    return 4;
  } catch (const unisono::InvalidArgument& error) {
    std::cerr << std::string("InvalidArgument: ").append(error.what()).append("\n");
    return 3;
  } catch (const std::exception& error) {
    std::cerr << std::string("wrong: ").append(error.what()).append("\n");
    return 1;
  }
  std::cout << "fine" << std::endl;
  // A rank that ends without MPI_Finalize makes mpirun end the others: not before they have said it too.
  if (mode == "thread") MPI_Barrier(MPI_COMM_WORLD);
  return 0;
}
