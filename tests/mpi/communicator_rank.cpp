// A program with communicators of its own MPI, which it makes groups of, and back: unisono/mpi.h. It is built once with each kind.
//
//   communicator_rank MODE [FOLDER]
#include "unisono/mpi.h"

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "unisono/unisono.h"

namespace {

using unisono::from_mpi;
using unisono::to_mpi;

void expect(bool holds, const std::string& what) {
  if (!holds) throw std::logic_error(what);
}

template <class F>
void expect_refused(F&& f, const std::string& sentence) {
  try {
    f();
  } catch (const unisono::InvalidArgument& error) {
    expect(std::string(error.what()).find(sentence) != std::string::npos, error.what());
    return;
  }
  expect(false, "nothing says: " + sentence);
}

struct Place {
  int rank = -1, size = 0;
};
Place place_in(MPI_Comm comm) {
  Place place;
  MPI_Comm_rank(comm, &place.rank);
  MPI_Comm_size(comm, &place.size);
  return place;
}

/// The group has the communicator's processes in its order, and works.
void expect_same(MPI_Comm comm, const unisono::ProcessGroup& group) {
  const Place place = place_in(comm);
  expect(group.rank() == place.rank && group.size() == place.size, "another place");
  std::vector<int> own{unisono::rank()}, by_mpi(static_cast<std::size_t>(place.size)), by_us = by_mpi;
  MPI_Allgather(own.data(), 1, MPI_INT, by_mpi.data(), 1, MPI_INT, comm);
  unisono::all_gather(own, by_us, group);
  expect(by_us == by_mpi && group.global_ranks() == by_mpi, "other members");
}

/// Communicators in another order than the world's, and back.
void convert() {
  const Place all = place_in(MPI_COMM_WORLD);
  MPI_Comm backwards = MPI_COMM_NULL, half = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, 0, -all.rank, &backwards);
  MPI_Comm_split(MPI_COMM_WORLD, all.rank % 2, -all.rank, &half);
  for (MPI_Comm comm : {MPI_COMM_WORLD, backwards, half, MPI_COMM_SELF}) {
    const unisono::ProcessGroup group = from_mpi(comm);
    expect_same(comm, group);
    MPI_Comm back = to_mpi(group);
    int comparison = MPI_UNEQUAL;
    MPI_Comm_compare(comm, back, &comparison);
    expect(comparison == MPI_CONGRUENT, "another communicator came back");
    int sum = 0;
    const int own = unisono::rank() + 1;
    MPI_Allreduce(&own, &sum, 1, MPI_INT, MPI_SUM, back);
    expect(sum == unisono::all_reduce(own, unisono::ReduceOp::sum, group), "another sum");
    MPI_Comm_free(&back);
  }
  expect_refused([] { static_cast<void>(from_mpi(MPI_COMM_NULL)); }, "MPI_COMM_NULL has no processes");
  if (all.size == 2) {
    MPI_Comm bridge = MPI_COMM_NULL;
    MPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_WORLD, 1 - all.rank, 0, &bridge);
    expect_refused([&] { static_cast<void>(from_mpi(bridge)); }, "an intercommunicator connects two groups");
    MPI_Comm_free(&bridge);
  }
  MPI_Comm_free(&half);
  MPI_Comm_free(&backwards);
}

/// Two processes each are a job of their own.
void refuse_other_jobs(const std::string& folder) {
  const Place all = place_in(MPI_COMM_WORLD);
  MPI_Comm pair = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, all.rank / 2, all.rank, &pair);
  const int job = all.rank / 2, rank_in_job = all.rank % 2;
  expect_refused([&] { static_cast<void>(from_mpi(pair)); }, "process 0 of the communicator has not joined the job");
  unisono::InitOptions options;
  options.backend = "tcp";
  options.init_method = "file://" + folder + "/job" + std::to_string(job);
  options.rank = rank_in_job;
  options.world_size = 2;
  unisono::initialize(options);
  expect_same(pair, from_mpi(pair));
  expect_refused([] { static_cast<void>(from_mpi(MPI_COMM_WORLD)); }, "processes 0 and 2 of the communicator have joined different jobs");
  // Rank 0 of one job and rank 1 of the other: no rank stands there twice.
  MPI_Comm crossed = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, all.rank == 0 || all.rank == 3 ? 0 : 1, all.rank, &crossed);
  expect_refused([&] { static_cast<void>(from_mpi(crossed)); }, "processes 0 and 1 of the communicator have joined different jobs");
  MPI_Comm_free(&crossed);
  MPI_Comm_free(&pair);
}

/// One process waits for another that does not call.
void time_out() {
  if (unisono::rank() == 0) {
    try {
      static_cast<void>(from_mpi(MPI_COMM_WORLD, {.timeout = std::chrono::milliseconds(200)}));
      expect(false, "a process alone got a group");
    } catch (const unisono::Timeout& error) {
      expect(std::string(error.what()).find("did not call within 200 ms") != std::string::npos, error.what());
    }
  }
  unisono::barrier();
  expect_same(MPI_COMM_SELF, from_mpi(MPI_COMM_SELF));
  unisono::barrier();
}

void run(const std::string& mode, const std::string& folder) {
  if (mode == "without_mpi") {
    expect_refused([] { static_cast<void>(from_mpi(MPI_COMM_WORLD)); }, "MPI is not initialized in this process");
    expect_refused([] { static_cast<void>(to_mpi(unisono::world())); }, "MPI is not initialized in the process of rank 0");
    return;
  }
  MPI_Init(nullptr, nullptr);
  if (mode == "joined") unisono::initialize();
  if (mode == "found") expect_same(MPI_COMM_WORLD, from_mpi(MPI_COMM_WORLD));
  if (mode == "joined" || mode == "found") convert();
  if (mode == "jobs") refuse_other_jobs(folder);
  if (mode == "timeout") {
    unisono::initialize();
    time_out();
    unisono::finalize();
    std::cout << "fine" << std::endl;
    std::quick_exit(0);  // MPI_Finalize would wait for the call that was given up
  }
  unisono::finalize();
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : "");
  } catch (const std::exception& error) {
    std::cerr << "wrong: " << error.what() << "\n";
    return 1;
  }
  std::cout << "fine" << std::endl;
  return 0;
}
