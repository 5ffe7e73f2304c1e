#include "harness/session.h"

#include <dlfcn.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iostream>

#include "harness/statistics.h"

namespace unisono::bench {

namespace {

// A call below this size may be as short as reading the clock, so several are timed together.
constexpr std::size_t batched_below_bytes = 4096;
constexpr int largest_batch = 64;
constexpr std::int64_t longest_batch_ns = 2'000'000;
// On a device calls of any size are timed in rows, as NCCL's own tests and the programs on devices have them: several are enqueued, and the host
// waits once.
constexpr int smallest_batch_on_device = 4;

std::int64_t now_ns() { return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// What this process has taken so far, with all of its threads.
struct Usage {
  Stamp switches;  ///< `begin`: voluntary, `end`: involuntary
  std::int64_t processor_ns = 0;
};

Usage usage() {
  rusage now{};
  ::getrusage(RUSAGE_SELF, &now);
  const auto ns = [](const timeval& time) { return (time.tv_sec * std::int64_t{1'000'000} + time.tv_usec) * 1000; };
  return {.switches = {.begin = now.ru_nvcsw, .end = now.ru_nivcsw}, .processor_ns = ns(now.ru_utime) + ns(now.ru_stime)};
}

std::size_t capacity_of(const Plan& plan, int rank) {
  std::size_t most = 0;
  for (Operation operation : plan.operations)
    for (std::size_t bytes : plan.sizes) {
      if (bytes > most_bytes_of(operation)) continue;
      const Shape shape = shape_of(operation, plan.ranks, bytes, size_of(plan.dtype), rank);
      most = std::max({most, shape.in, shape.out, shape.size});
    }
  return most * size_of(plan.dtype);
}

}  // namespace

Session::Session(const Plan& plan, Arena& arena, Candidates& candidates, BenchDevice* device)
    : plan_(plan),
      arena_(arena),
      candidates_(candidates),
      device_(device),
      element_size_(size_of(plan.dtype)),
      in_(capacity_of(plan, arena.rank()), plan.shared_buffers, device),
      out_(capacity_of(plan, arena.rank()), plan.shared_buffers, device),
      pattern_(plan.dtype, arena.ranks()),
      rewriter_(plan.dtype, arena.rank(), arena.ranks()) {}

std::vector<Block> Session::round(std::uint64_t number, const std::function<void(double part)>& on_progress) {
  std::vector<Block> blocks;
  counted_calls_.clear();
  const auto steps = static_cast<double>(plan_.operations.size() * plan_.sizes.size());
  std::size_t begun = 0;
  Draws draws(plan_.seed * 1'000'003 + number);  // the same on every rank
  for (Operation operation : plan_.operations) {
    std::size_t last = ~std::size_t{0};
    for (std::size_t bytes : plan_.sizes) {
      if (on_progress && begun > 0) on_progress(static_cast<double>(begun) / steps);
      ++begun;
      if (bytes > most_bytes_of(operation)) continue;
      const Job job = job_of(operation, bytes);
      const std::size_t actual = bytes_of(job.shape, element_size_);
      if (actual == last) continue;  // two of the given sizes come to the same number of elements
      last = actual;
      std::vector<Candidate*> order;
      for (const auto& candidate : candidates_)
        if (candidate->supports(operation, plan_.dtype) || (candidate->supports(Operation::copy, plan_.dtype) && operation != Operation::barrier))
          order.push_back(candidate.get());
      for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[draws.below(i)]);
      for (Candidate* candidate : order) blocks.push_back(block(*candidate, job, number));
    }
  }
  return blocks;
}

double Session::barrier_ns() {
  constexpr int barrier_samples = 32;
  constexpr int barrier_batch = 16;
  for (int s = 0; s < barrier_samples; ++s) {
    arena_.barrier();
    Stamp& stamp = arena_.stamps()[static_cast<std::size_t>(s)];
    stamp.begin = now_ns();
    for (int i = 0; i < barrier_batch; ++i) arena_.barrier();
    stamp.end = now_ns();
  }
  arena_.barrier();
  return median(collect(barrier_samples, barrier_batch));
}

Job Session::job_of(Operation operation, std::size_t bytes) {
  Job job{.operation = operation, .dtype = plan_.dtype, .shape = shape_of(operation, arena_.ranks(), bytes, element_size_, arena_.rank())};
  const bool in_place = one_buffer(operation) || (plan_.in_place && operation == Operation::all_reduce);
  job.out = out_.given();
  job.in = in_place ? job.out : in_.given();
  if (device_ != nullptr) job.device = device_->place();
  return job;
}

Block Session::block(Candidate& candidate, const Job& job, std::uint64_t round) {
  Job own = job;
  if (!candidate.supports(job.operation, job.dtype)) {  // the roofline copies as many bytes as the size says
    const std::size_t elements = job.shape.size;
    own = {.operation = Operation::copy,
           .dtype = job.dtype,
           .shape = {.in = elements, .out = elements, .size = elements},
           .in = in_.given(),
           .out = out_.given(),
           .device = job.device};
  }
  in_.guard(own.shape.in * element_size_);
  out_.guard(own.shape.out * element_size_);
  candidate.select(own);
  arena_.barrier();

  const std::uint64_t seed = plan_.seed + 2 * round;
  verify(candidate, own, seed);
  if (round == 0) verify_reals(candidate, own, seed);
  const Pace pace = pace_of(candidate, own);
  for (int i = 0; i < pace.warmups; ++i) timed(candidate, own, 0, 1);
  const Usage before = usage();
  for (int s = 0; s < pace.samples; ++s) timed(candidate, own, s, pace.batch);
  const Usage after = usage();
  // Behind the times, so that rank 0 reads them with these.
  Stamp* const beyond = &arena_.stamps()[static_cast<std::size_t>(pace.samples)];
  beyond[0] = {.begin = after.switches.begin - before.switches.begin, .end = after.switches.end - before.switches.end};
  beyond[1] = {.begin = 0, .end = after.processor_ns - before.processor_ns};
  arena_.barrier();
  Block result{.operation = job.operation, .candidate = std::string(candidate.name()), .bytes = bytes_of(job.shape, element_size_)};
  if (arena_.rank() == 0) {
    const int messages = pace.batch * static_cast<int>(messages_of(own.operation));
    result.samples_ns = collect(pace.samples, messages);
    result.cost = collect_cost(pace.samples, messages);
  }
  if (plan_.reports_on("counts") && own.operation != Operation::copy) counted_calls_.push_back(count(candidate, own, pace));
  verify(candidate, own, seed + 1);  // the result must still be right after all these calls
  return result;
}

void Session::timed(Candidate& candidate, const Job& job, int sample, int batch) {
  if (plan_.data != DataMode::constant) {
    rewriter_.rewrite(input_of(job).data(), job.shape.in * element_size_);
    input_of(job).to_device();
  }
  arena_.barrier();
  Stamp stamp;
  stamp.begin = now_ns();
  for (int i = 0; i < batch; ++i) candidate.call();
  if (device_ != nullptr) device_->synchronise();
  if (plan_.data == DataMode::touch) sink_ += consume(out_.data(), job.shape.out * element_size_);
  stamp.end = now_ns();
  arena_.stamps()[static_cast<std::size_t>(sample)] = stamp;
}

CountedCalls Session::count(Candidate& candidate, const Job& job, const Pace& pace) {
  static const auto entry = reinterpret_cast<CountsEntry>(::dlsym(RTLD_DEFAULT, counts_entry));
  if (entry == nullptr) throw std::runtime_error("libunisono-counts.so, which counts what a call takes, is not loaded");
  CountedThreads& threads = *entry();
  const auto calls = static_cast<std::uint64_t>(pace.samples) * static_cast<std::uint64_t>(pace.batch);
  CountedCalls counted{
      .operation = job.operation, .candidate = std::string(candidate.name()), .bytes = bytes_of(job.shape, element_size_), .calls = calls};
  const auto each_function = [&](auto&& visit) {
    for (CountedFunction& function : threads.own) visit(function, false);
    for (CountedFunction& function : threads.others) visit(function, true);
  };
  each_function([](CountedFunction& function, bool) { function.calls = function.in_vain = function.bytes = function.ns = 0; });
  std::int64_t ns = 0;
  for (int s = 0; s < pace.samples; ++s) {
    arena_.barrier();
    threads.is_counting = true;
    const std::int64_t begin = now_ns();
    for (int i = 0; i < pace.batch; ++i) candidate.call();
    ns += now_ns() - begin;
    threads.is_counting = false;
  }
  arena_.barrier();
  counted.ns = static_cast<double>(ns) / static_cast<double>(calls);
  each_function([&](const CountedFunction& function, bool of_others) {
    if (function.calls == 0) return;
    counted.functions.push_back({.name = function.name,
                                 .is_of_other_threads = of_others,
                                 .kind = function.kind,
                                 .calls = function.calls,
                                 .in_vain = function.in_vain,
                                 .bytes = function.bytes,
                                 .ns = function.ns});
  });
  return counted;
}

std::vector<double> Session::collect(int samples, int batch) {
  std::vector<double> times;
  std::vector<Stamp> of_ranks(static_cast<std::size_t>(arena_.ranks()));
  for (std::size_t s = 0; s < static_cast<std::size_t>(samples); ++s) {
    for (int r = 0; r < arena_.ranks(); ++r) of_ranks[static_cast<std::size_t>(r)] = arena_.stamps(r)[s];
    times.push_back(duration_ns(of_ranks, arena_.share_processors()) / batch);
  }
  return times;
}

Cost Session::collect_cost(int samples, int batch) {
  Cost cost;
  for (int r = 0; r < arena_.ranks(); ++r) {
    const Stamp* const beyond = &arena_.stamps(r)[static_cast<std::size_t>(samples)];
    cost.voluntary += static_cast<double>(beyond[0].begin);
    cost.involuntary += static_cast<double>(beyond[0].end);
    cost.processor_ns += static_cast<double>(beyond[1].end);
  }
  const double calls = static_cast<double>(samples) * batch * arena_.ranks();
  return {.voluntary = cost.voluntary / calls, .involuntary = cost.involuntary / calls, .processor_ns = cost.processor_ns / calls};
}

Session::Pace Session::pace_of(Candidate& candidate, const Job& job) {
  const Key key{job.operation, bytes_of(job.shape, element_size_), std::string(candidate.name())};
  if (auto found = paces_.find(key); found != paces_.end()) return found->second;
  std::int64_t shortest = INT64_MAX;
  for (int i = 0; i < 3; ++i) {
    timed(candidate, job, 0, 1);
    const Stamp& stamp = arena_.stamps()[0];
    shortest = std::min(shortest, stamp.end - stamp.begin);
  }
  const std::int64_t call = std::max<std::int64_t>(1, arena_.agree_on_maximum(shortest));
  Pace pace;
  const bool is_short = synchronises(job.operation, arena_.ranks()) && std::get<1>(key) < batched_below_bytes;
  const int smallest_batch = device_ != nullptr ? smallest_batch_on_device : 1;
  if (plan_.data == DataMode::constant && (device_ != nullptr || is_short))
    pace.batch = static_cast<int>(std::clamp<std::int64_t>(longest_batch_ns / call, smallest_batch, largest_batch));
  const std::int64_t block = std::chrono::nanoseconds(plan_.block_time).count();
  constexpr std::int64_t fewest_samples = 5, warmup_ns = 1'000'000, fewest_warmups = 2, most_warmups = 10;
  pace.samples = static_cast<int>(std::clamp<std::int64_t>(block / (call * pace.batch), fewest_samples, Arena::most_samples));
  pace.warmups = static_cast<int>(std::clamp<std::int64_t>(warmup_ns / call, fewest_warmups, most_warmups));
  return paces_.emplace(key, pace).first->second;
}

void Session::call_once(Candidate& candidate) {
  in_.to_device();
  out_.to_device();
  arena_.barrier();
  candidate.call();
  in_.from_device();
  out_.from_device();
}

void Session::verify(Candidate& candidate, const Job& job, std::uint64_t seed) {
  if (job.operation == Operation::barrier) return verify_barrier(candidate);
  if (!job.in_place()) std::memset(out_.data(), 0xFF, job.shape.out * element_size_);
  pattern_.fill(input_of(job).data(), job.shape.in, arena_.rank(), seed);
  call_once(candidate);
  std::optional<std::string> wrong = pattern_.wrong(job.operation, out_.data(), job.shape, arena_.rank(), seed);
  if (!in_.guards_intact() || !out_.guards_intact()) wrong = "bytes outside the buffers were written";
  conclude(candidate, job, wrong);
}

void Session::verify_barrier(Candidate& candidate) {
  // No rank may leave before all ranks have entered.
  arena_.word(arena_.rank()).store(0);
  arena_.barrier();
  arena_.word(arena_.rank()).store(1);
  candidate.call();
  std::optional<std::string> wrong;
  for (int r = 0; r < arena_.ranks(); ++r)
    if (arena_.word(r).load() != 1) wrong = "rank " + std::to_string(r) + " had not entered the barrier when this rank left it";
  arena_.barrier();
  conclude(candidate, Job{}, wrong);
}

void Session::verify_reals(Candidate& candidate, const Job& job, std::uint64_t seed) {
  if (job.operation != Operation::all_reduce || (job.dtype != DType::float32 && job.dtype != DType::float64)) return;
  fill_reals(job.dtype, input_of(job).data(), job.shape.in, arena_.rank(), seed);
  call_once(candidate);
  std::optional<std::string> wrong = wrong_real_sum(job.dtype, out_.data(), job.shape.out, arena_.ranks(), seed);
  conclude(candidate, job, wrong);
  if (!candidate.name().starts_with("unisono")) return;  // only unisono promises the same bits on all ranks
  const std::uint64_t hash = hash_of(out_.data(), job.shape.out * element_size_) >> 1;
  const std::int64_t largest = arena_.agree_on_maximum(static_cast<std::int64_t>(hash));
  if (largest != static_cast<std::int64_t>(hash)) wrong = "the outputs of the ranks differ in their bits";
  conclude(candidate, job, wrong);
}

void Session::conclude(const Candidate& candidate, const Job& job, const std::optional<std::string>& wrong) {
  const std::string what = std::string(candidate.name()) + ", " + std::string(to_string(job.operation)) + " of " +
                           std::to_string(bytes_of(job.shape, element_size_)) + " bytes";
  if (wrong) std::cerr << "unisono bench: rank " << arena_.rank() << ": " << what << ": " << *wrong << std::endl;
  if (arena_.agree_on_maximum(wrong ? 1 : 0) != 0) throw WrongResult("wrong result: " + what);
}

}  // namespace unisono::bench
