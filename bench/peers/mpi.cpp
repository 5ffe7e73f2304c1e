// Measures Open MPI and MPICH. It is compiled once for each; UNISONO_BENCH_MPI is the name.

#include <mpi.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "harness/peer.h"

namespace unisono::bench {

namespace {

constexpr std::string_view peer_name = UNISONO_BENCH_MPI;

MPI_Datatype type_of(DType dtype) {
  switch (dtype) {
    case DType::float32: return MPI_FLOAT;
    case DType::float64: return MPI_DOUBLE;
    case DType::int8: return MPI_INT8_T;
    case DType::uint8: return MPI_UINT8_T;
    case DType::int32: return MPI_INT32_T;
    case DType::int64: return MPI_INT64_T;
    default: return MPI_DATATYPE_NULL;  // MPI 3 has no 16-bit floats
  }
}

class MpiCandidate final : public Candidate {
 public:
  explicit MpiCandidate(Place place) : rank_(place.rank), ranks_(place.ranks) {}

  std::string_view name() const override { return peer_name; }
  bool supports(Operation operation, DType dtype) const override { return operation != Operation::copy && type_of(dtype) != MPI_DATATYPE_NULL; }

  void select(const Job& job) override {
    job_ = job;
    type_ = type_of(job.dtype);
    if (std::max(job.shape.in, job.shape.out) > static_cast<std::size_t>(std::numeric_limits<int>::max()))
      throw std::runtime_error("MPI counts elements in an int: this buffer is too long for " + std::string(peer_name));
    in_ = static_cast<int>(job.shape.in);
    out_ = static_cast<int>(job.shape.out);
  }

  // Errors are fatal to MPI_COMM_WORLD by default: it prints them and ends all ranks.
  void call() override {
    const void* in = job_.in_place() ? MPI_IN_PLACE : job_.in;
    void* out = job_.out;
    const bool root = rank_ == 0;
    switch (job_.operation) {
      case Operation::all_reduce: MPI_Allreduce(in, out, out_, type_, MPI_SUM, MPI_COMM_WORLD); return;
      case Operation::broadcast: MPI_Bcast(out, out_, type_, 0, MPI_COMM_WORLD); return;
      case Operation::reduce:
        MPI_Reduce(root ? in : static_cast<const void*>(out), root ? out : nullptr, out_, type_, MPI_SUM, 0, MPI_COMM_WORLD);
        return;
      case Operation::all_gather: MPI_Allgather(in, in_, type_, out, in_, type_, MPI_COMM_WORLD); return;
      case Operation::reduce_scatter: MPI_Reduce_scatter_block(in, out, out_, type_, MPI_SUM, MPI_COMM_WORLD); return;
      case Operation::all_to_all: MPI_Alltoall(in, in_ / ranks_, type_, out, in_ / ranks_, type_, MPI_COMM_WORLD); return;
      case Operation::gather: MPI_Gather(in, in_, type_, root ? out : nullptr, in_, type_, 0, MPI_COMM_WORLD); return;
      case Operation::scatter: MPI_Scatter(root ? in : nullptr, out_, type_, out, out_, type_, 0, MPI_COMM_WORLD); return;
      case Operation::barrier: MPI_Barrier(MPI_COMM_WORLD); return;
      case Operation::send_recv:
        MPI_Sendrecv(in, in_, type_, (rank_ + 1) % ranks_, 0, out, out_, type_, (rank_ + ranks_ - 1) % ranks_, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        return;
      case Operation::copy: return;
    }
  }

 private:
  int rank_;
  int ranks_;
  Job job_ = {};
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
  int in_ = 0;
  int out_ = 0;
};

class MpiSet final : public ProcessSet {
 public:
  Place join(int& argc, char**& argv) override {
    int provided = MPI_THREAD_SINGLE;
    if (MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS) throw std::runtime_error("MPI_Init_thread failed");
    Place place;
    MPI_Comm_rank(MPI_COMM_WORLD, &place.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &place.ranks);
    return place;
  }
  void add_candidates(Candidates& candidates, const Plan& plan, Place place) override {
    if (std::ranges::find(plan.candidates, peer_name) != plan.candidates.end()) candidates.push_back(std::make_unique<MpiCandidate>(place));
  }
  void leave() override { MPI_Finalize(); }
};

}  // namespace

std::unique_ptr<ProcessSet> make_process_set() { return std::make_unique<MpiSet>(); }

std::vector<PeerVersion> process_set_peers() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  std::string version(text, static_cast<std::size_t>(length));
  version = version.substr(0, version.find_first_of(",\n"));
  std::ranges::replace(version, '\t', ' ');
  return {{.name = std::string(peer_name), .version = version}};
}

}  // namespace unisono::bench
