// Measures Open MPI and MPICH. It is compiled once for each; UNISONO_BENCH_MPI is the name.

#include <mpi.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <vector>

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
    const bool exchanges = job.operation == Operation::all_to_all_v;
    const std::vector<std::size_t> blocks =
        exchanges ? uneven_exchange(job.shape.size, ranks_, rank_) : uneven_blocks(std::max<std::size_t>(job.shape.size, 1), ranks_);
    counts_.assign(blocks.begin(), blocks.end());
    places_.resize(counts_.size());
    std::exclusive_scan(counts_.begin(), counts_.end(), places_.begin(), 0);
    element_bytes_ = size_of(job.dtype);
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
      default: return is_in_pairs(job_.operation) ? call_in_pairs() : call_uneven();
    }
  }

 private:
  /// The operations on blocks of different length.
  void call_uneven() {
    const void* in = job_.in;
    void* out = job_.out;
    const bool root = rank_ == 0;
    const int *counts = counts_.data(), *places = places_.data();
    const int own = counts[rank_];
    switch (job_.operation) {
      case Operation::all_gather_v: MPI_Allgatherv(in, own, type_, out, counts, places, type_, MPI_COMM_WORLD); return;
      case Operation::gather_v: MPI_Gatherv(in, own, type_, root ? out : nullptr, counts, places, type_, 0, MPI_COMM_WORLD); return;
      case Operation::scatter_v: MPI_Scatterv(root ? in : nullptr, counts, places, type_, out, own, type_, 0, MPI_COMM_WORLD); return;
      case Operation::reduce_scatter_v: MPI_Reduce_scatter(in, out, counts, type_, MPI_SUM, MPI_COMM_WORLD); return;
      case Operation::all_to_all_v: MPI_Alltoallv(in, counts, places, type_, out, counts, places, type_, MPI_COMM_WORLD); return;
      default: return;
    }
  }

  void call_in_pairs() {
    const std::optional<int> partner = partner_of(rank_, ranks_);
    if (!partner) return;
    if (is_windowed(job_.operation)) return exchange_window(*partner);
    const bool begins = rank_ < *partner;
    if (begins) MPI_Send(job_.in, in_, type_, *partner, 0, MPI_COMM_WORLD);
    MPI_Recv(job_.out, out_, type_, *partner, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (!begins) MPI_Send(job_.in, in_, type_, *partner, 0, MPI_COMM_WORLD);
  }

  void exchange_window(int partner) {
    const bool sends = sends_in_window(job_.operation, rank_), receives = receives_in_window(job_.operation, rank_);
    const int message = static_cast<int>(job_.shape.size);
    const auto* in = static_cast<const std::byte*>(job_.in);
    auto* out = static_cast<std::byte*>(job_.out);
    int under_way = 0;
    for (std::size_t k = 0; receives && k < window; ++k)
      MPI_Irecv(out + job_.place_of(k) * element_bytes_, message, type_, partner, 0, MPI_COMM_WORLD, &requests_[under_way++]);
    for (std::size_t k = 0; sends && k < window; ++k)
      MPI_Isend(in + job_.place_of(k) * element_bytes_, message, type_, partner, 0, MPI_COMM_WORLD, &requests_[under_way++]);
    MPI_Waitall(under_way, requests_, MPI_STATUSES_IGNORE);
    char answer = 0;
    if (!receives) MPI_Recv(&answer, 1, MPI_CHAR, partner, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else if (!sends) MPI_Send(&answer, 1, MPI_CHAR, partner, 0, MPI_COMM_WORLD);
  }

  int rank_;
  int ranks_;
  Job job_ = {};
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
  int in_ = 0;
  int out_ = 0;
  std::size_t element_bytes_ = 1;
  // The blocks of different length, in elements.
  std::vector<int> counts_, places_;
  MPI_Request requests_[2 * window];
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
