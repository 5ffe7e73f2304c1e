// Measures an MPI. It is compiled once for each ABI: with the headers of Open MPI, of MPICH, and with our declarations of the standard ABI.

#include <mpi.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "peers/mpi_part.h"

namespace unisono::bench {

namespace {

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
  MpiCandidate(std::string name, Place place) : name_(std::move(name)), rank_(place.rank), ranks_(place.ranks) {}

  std::string_view name() const override { return name_; }
  bool supports(Operation operation, DType dtype) const override {
    const OperationTraits* const traits = operation.traits();
    return operation != Operation::copy && (traits == nullptr || collectives[traits->operation] != nullptr) && type_of(dtype) != MPI_DATATYPE_NULL;
  }

  void select(const Job& job) override {
    job_ = job;
    type_ = type_of(job.dtype);
    if (std::max(job.shape.in, job.shape.out) > static_cast<std::size_t>(std::numeric_limits<int>::max()))
      throw std::runtime_error("MPI counts elements in an int: this buffer is too long for " + name_);
    in_ = static_cast<int>(job.shape.in);
    out_ = static_cast<int>(job.shape.out);
    const std::vector<std::size_t> blocks = counts_of(job.operation, job.shape.size, ranks_, rank_);
    counts_.assign(blocks.begin(), blocks.end());
    places_.resize(counts_.size());
    std::exclusive_scan(counts_.begin(), counts_.end(), places_.begin(), 0);
    element_bytes_ = size_of(job.dtype);
    const OperationTraits* const traits = job.operation.traits();
    call_ = traits != nullptr ? collectives[traits->operation] : job.operation == Operation::send_recv ? &pass_on : &call_in_pairs;
  }

  // Errors are fatal to MPI_COMM_WORLD by default: it prints them and ends all ranks.
  void call() override { call_(*this); }
  bool needs_progress() const override { return true; }
  /// An MPI may leave the rest of a send that it has called complete to a later call of the sender (weak progress: MPI 4.1, section 2.9).
  void progress() override {
    int found = 0;
    MPI_Iprobe(0, 0, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
  }

 private:
  using Self = MpiCandidate;
  using Call = void (*)(Self&);
  static const OperationMap<Call> collectives;

  bool is_root() const { return rank_ == 0; }
  /// The buffers as MPI gets them.
  const void* in() const { return job_.in_place() ? MPI_IN_PLACE : job_.in; }
  void* out() const { return job_.out; }
  void* out_of_root() const { return is_root() ? job_.out : nullptr; }
  const void* in_of_root() const { return is_root() ? job_.in : nullptr; }

  static void pass_on(Self& c) {
    const int next = (c.rank_ + 1) % c.ranks_, previous = (c.rank_ + c.ranks_ - 1) % c.ranks_;
    MPI_Sendrecv(c.job_.in, c.in_, c.type_, next, 0, c.job_.out, c.out_, c.type_, previous, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }

  static void call_in_pairs(Self& c) {
    const std::optional<int> partner = partner_of(c.rank_, c.ranks_);
    if (!partner) return;
    if (is_windowed(c.job_.operation)) return c.exchange_window(*partner);
    const bool begins = c.rank_ < *partner;
    if (begins) MPI_Send(c.job_.in, c.in_, c.type_, *partner, 0, MPI_COMM_WORLD);
    MPI_Recv(c.job_.out, c.out_, c.type_, *partner, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (!begins) MPI_Send(c.job_.in, c.in_, c.type_, *partner, 0, MPI_COMM_WORLD);
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

  std::string name_;
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
  Call call_ = nullptr;
};

const OperationMap<MpiCandidate::Call> MpiCandidate::collectives{
    {Operation::barrier, [](Self&) { MPI_Barrier(MPI_COMM_WORLD); }},
    {Operation::all_reduce, [](Self& c) { MPI_Allreduce(c.in(), c.out(), c.out_, c.type_, MPI_SUM, MPI_COMM_WORLD); }},
    {Operation::broadcast, [](Self& c) { MPI_Bcast(c.out(), c.out_, c.type_, 0, MPI_COMM_WORLD); }},
    {Operation::reduce, [](Self& c) { MPI_Reduce(c.is_root() ? c.in() : c.out(), c.out_of_root(), c.out_, c.type_, MPI_SUM, 0, MPI_COMM_WORLD); }},
    {Operation::scan, [](Self& c) { MPI_Scan(c.in(), c.out(), c.out_, c.type_, MPI_SUM, MPI_COMM_WORLD); }},
    {Operation::exscan, [](Self& c) { MPI_Exscan(c.in(), c.out(), c.out_, c.type_, MPI_SUM, MPI_COMM_WORLD); }},
    {Operation::all_gather, [](Self& c) { MPI_Allgather(c.in(), c.in_, c.type_, c.out(), c.in_, c.type_, MPI_COMM_WORLD); }},
    {Operation::gather, [](Self& c) { MPI_Gather(c.in(), c.in_, c.type_, c.out_of_root(), c.in_, c.type_, 0, MPI_COMM_WORLD); }},
    {Operation::scatter, [](Self& c) { MPI_Scatter(c.in_of_root(), c.out_, c.type_, c.out(), c.out_, c.type_, 0, MPI_COMM_WORLD); }},
    {Operation::reduce_scatter, [](Self& c) { MPI_Reduce_scatter_block(c.in(), c.out(), c.out_, c.type_, MPI_SUM, MPI_COMM_WORLD); }},
    {Operation::all_to_all, [](Self& c) { MPI_Alltoall(c.in(), c.in_ / c.ranks_, c.type_, c.out(), c.in_ / c.ranks_, c.type_, MPI_COMM_WORLD); }},
    {Operation::all_gather_v,
     [](Self& c) { MPI_Allgatherv(c.in(), c.in_, c.type_, c.out(), c.counts_.data(), c.places_.data(), c.type_, MPI_COMM_WORLD); }},
    {Operation::gather_v,
     [](Self& c) { MPI_Gatherv(c.in(), c.in_, c.type_, c.out_of_root(), c.counts_.data(), c.places_.data(), c.type_, 0, MPI_COMM_WORLD); }},
    {Operation::scatter_v,
     [](Self& c) { MPI_Scatterv(c.in_of_root(), c.counts_.data(), c.places_.data(), c.type_, c.out(), c.out_, c.type_, 0, MPI_COMM_WORLD); }},
    {Operation::reduce_scatter_v, [](Self& c) { MPI_Reduce_scatter(c.in(), c.out(), c.counts_.data(), c.type_, MPI_SUM, MPI_COMM_WORLD); }},
    {Operation::all_to_all_v,
     [](Self& c) {
       const int *const counts = c.counts_.data(), *const places = c.places_.data();
       MPI_Alltoallv(c.in(), counts, places, c.type_, c.out(), counts, places, c.type_, MPI_COMM_WORLD);
     }},
};

Place join() {
  int provided = MPI_THREAD_SINGLE;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS) throw std::runtime_error("MPI_Init_thread failed");
  Place place;
  MPI_Comm_rank(MPI_COMM_WORLD, &place.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &place.ranks);
  return place;
}

void leave() { MPI_Finalize(); }

std::unique_ptr<Candidate> candidate(std::string name, Place place) { return std::make_unique<MpiCandidate>(std::move(name), place); }

std::string version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  return std::string(text, static_cast<std::size_t>(length));
}

}  // namespace
}  // namespace unisono::bench

extern "C" [[gnu::visibility("default")]] const unisono::bench::MpiPart* unisono_bench_mpi_part() {
  using namespace unisono::bench;
  static constexpr MpiPart part{.join = join, .leave = leave, .candidate = candidate, .version = version};
  return &part;
}
