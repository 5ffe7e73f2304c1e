#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "harness/arena.h"
#include "harness/buffers.h"
#include "harness/candidate.h"
#include "harness/counted.h"
#include "harness/device.h"

namespace unisono::bench {

/// What a call takes of one rank's process, with all of its threads: the average over the calls of a block and over the ranks.
struct Cost {
  double voluntary = 0;    ///< switches to another process because this one waits
  double involuntary = 0;  ///< switches because the scheduler takes the core away, or this process gives it up
  double processor_ns = 0;
};

/// The result of one block of calls; only rank 0 has the samples and the cost.
struct Block {
  Operation operation = Operation::barrier;
  std::string candidate;
  std::size_t bytes = 0;
  std::vector<double> samples_ns = {};  ///< the time of each call, or of a message of it; or the average over a batch of calls
  Cost cost = {};
};

/// The costs of the calls of a block on this rank.
struct CountedCalls {
  Operation operation = Operation::barrier;
  std::string candidate;
  std::size_t bytes = 0;
  std::uint64_t calls = 0;
  double ns = 0;  ///< that a call takes on this rank
  struct Function {
    std::string name;
    bool is_of_other_threads = false;
    CountedFunction::Kind kind = CountedFunction::Kind::plain;
    std::uint64_t calls = 0, in_vain = 0, bytes = 0, ns = 0;  ///< of all calls
  };
  std::vector<Function> functions = {};
};

/// A wrong result, with the same text on every rank: candidate, operation and size.
struct WrongResult : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A rank's part of the measurement. Every rank calls the same functions in the same order.
class Session {
 public:
  /// `device`: the candidates get memory of it.
  Session(const Plan& plan, Arena& arena, Candidates& candidates, BenchDevice* device = nullptr);

  /// Measures one verified block of calls of each candidate, for each operation and size, in an order drawn anew. Calls the function between sizes
  /// with the part of the round that is done.
  std::vector<Block> round(std::uint64_t number, const std::function<void(double part)>& on_progress = {});
  /// Returns what the calls of the last round's blocks took, where the plan asks for it.
  const std::vector<CountedCalls>& counted_calls() const { return counted_calls_; }
  /// Returns the median of the harness's own barrier, which is reported beside every figure.
  double barrier_ns();

 private:
  struct Pace {
    int warmups = 2;
    int batch = 1;
    int samples = 5;
  };
  using Key = std::tuple<Operation, std::size_t, std::string>;

  Job job_of(Operation operation, std::size_t bytes);
  /// Returns the buffer of the input.
  GuardedBuffer& input_of(const Job& job) { return job.in_place() ? out_ : in_; }
  Block block(Candidate& candidate, const Job& job, std::uint64_t round);
  /// Calls once, with what the buffers have in memory of the host; this is where the result is afterwards, too.
  void call_once(Candidate& candidate);
  void verify(Candidate& candidate, const Job& job, std::uint64_t seed);
  void verify_barrier(Candidate& candidate);
  void verify_reals(Candidate& candidate, const Job& job, std::uint64_t seed);
  /// Throws WrongResult on all ranks if any of them found a wrong result.
  void conclude(const Candidate& candidate, const Job& job, const std::optional<std::string>& wrong);
  Pace pace_of(Candidate& candidate, const Job& job);
  void timed(Candidate& candidate, const Job& job, int sample, int batch);
  CountedCalls count(Candidate& candidate, const Job& job, const Pace& pace);
  std::vector<double> collect(int samples, int batch);
  Cost collect_cost(int samples, int batch);

  const Plan& plan_;
  Arena& arena_;
  Candidates& candidates_;
  BenchDevice* device_;
  std::size_t element_size_;
  GuardedBuffer in_;
  GuardedBuffer out_;
  Pattern pattern_;
  Rewriter rewriter_;
  std::map<Key, Pace> paces_;
  std::vector<CountedCalls> counted_calls_;
  std::uint64_t sink_ = 0;
};

}  // namespace unisono::bench
