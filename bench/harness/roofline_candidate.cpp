#include <cstring>

#include "harness/candidate.h"
#include "kernels/copy.h"

namespace unisono::bench {

namespace {

/// The bound beside every figure: each rank copies its bytes and does nothing else.
class RooflineCandidate final : public Candidate {
 public:
  using Copy = void (*)(void* to, const void* from, std::size_t bytes);
  RooflineCandidate(std::string name, Copy copy) : name_(std::move(name)), copy_(copy) {}

  std::string_view name() const override { return name_; }
  bool supports(Operation operation, DType) const override { return operation == Operation::copy; }
  void select(const Job& job) override { job_ = job; }
  void call() override { copy_(job_.out, job_.in, job_.shape.in * size_of(job_.dtype)); }

 private:
  std::string name_;
  Copy copy_;
  Job job_ = {};
};

void libc_copy(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }

}  // namespace

void add_roofline(Candidates& candidates) {
  candidates.push_back(std::make_unique<RooflineCandidate>("roofline/cached", kernels::copy));
  candidates.push_back(std::make_unique<RooflineCandidate>("roofline/streaming", kernels::copy_streaming));
  candidates.push_back(std::make_unique<RooflineCandidate>("roofline/libc", libc_copy));
}

}  // namespace unisono::bench
