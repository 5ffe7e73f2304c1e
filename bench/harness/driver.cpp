// Runs one rank of a process set: it joins the set, then measures a round at each order of the command until the command ends it.

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "harness/arena.h"
#include "harness/candidate.h"
#include "harness/session.h"
#include "kernels/copy.h"
#include "unisono/error.h"

namespace unisono::bench {

namespace {

using nlohmann::json;

/// The bound beside every figure: each rank copies its bytes and does nothing else.
class RooflineCandidate final : public Candidate {
 public:
  using Copy = std::function<void(void* to, const void* from, std::size_t bytes)>;
  RooflineCandidate(std::string name, Copy copy) : name_(std::move(name)), copy_(std::move(copy)) {}

  std::string_view name() const override { return name_; }
  bool supports(Operation operation, DType) const override { return operation == Operation::copy; }
  void select(const Job& job) override { job_ = job; }
  void call() override { copy_(job_.out, job_.in, job_.shape.in * size_of(job_.dtype)); }

 private:
  std::string name_;
  Copy copy_;
  Job job_ = {};
};

/// Adds "roofline": each rank copies its bytes, once with each copy kernel; the report takes the fastest one. A device copies them itself.
void add_roofline(Candidates& candidates, BenchDevice* device) {
  if (device != nullptr) {
    const auto copy = [device](void* to, const void* from, std::size_t bytes) { device->copy(to, from, bytes); };
    candidates.push_back(std::make_unique<RooflineCandidate>("roofline/device", copy));
    return;
  }
  const auto libc_copy = [](void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); };
  candidates.push_back(std::make_unique<RooflineCandidate>("roofline/cached", kernels::copy));
  candidates.push_back(std::make_unique<RooflineCandidate>("roofline/streaming", kernels::copy_streaming));
  candidates.push_back(std::make_unique<RooflineCandidate>("roofline/libc", libc_copy));
}

/// Rank 0's connection to the command: orders come in, results go out.
class Line {
 public:
  explicit Line(const Plan& plan)
      : control_(::open(plan.control().c_str(), O_RDONLY | O_CLOEXEC)), events_(::open(plan.events().c_str(), O_WRONLY | O_CLOEXEC)), plan_(plan) {
    if (!control_ || !events_) throw std::system_error(errno, std::generic_category(), "cannot reach the command that started the bench");
  }

  /// Returns the number of the next round; negative when the measurement is over.
  std::int64_t next_round() {
    const base::Deadline deadline(plan_.timeout);
    for (;;) {
      if (const auto end = text_.find('\n'); end != std::string::npos) {
        const std::string order = text_.substr(0, end);
        text_.erase(0, end + 1);
        return std::stoll(order);
      }
      pollfd wait{.fd = control_.get(), .events = POLLIN, .revents = 0};
      if (::poll(&wait, 1, deadline.poll_timeout()) == 0) throw std::runtime_error("no order from the command that started the bench");
      char buffer[256];
      const ssize_t got = ::read(control_.get(), buffer, sizeof buffer);
      if (got == 0) throw std::runtime_error("the command that started the bench is gone");
      if (got > 0) text_.append(buffer, static_cast<std::size_t>(got));
      else if (errno != EINTR) throw std::system_error(errno, std::generic_category(), "reading orders");
    }
  }

  void report(const json& event) {
    const std::string text = event.dump() + "\n";
    for (std::size_t done = 0; done < text.size();) {
      const ssize_t wrote = ::write(events_.get(), text.data() + done, text.size() - done);
      if (wrote < 0 && errno != EINTR) throw std::system_error(errno, std::generic_category(), "writing results");
      if (wrote > 0) done += static_cast<std::size_t>(wrote);
    }
  }

 private:
  base::FileDescriptor control_;
  base::FileDescriptor events_;
  const Plan& plan_;
  std::string text_;
};

/// Binds the calling thread to the core of its rank among those it may use, if there is one for each.
class Binding {
 public:
  Binding(Place place, bool wanted) {
    ::sched_getaffinity(0, sizeof all_, &all_);
    own_ = all_;
    own_core_ = CPU_COUNT(&all_) >= place.ranks;
    if (!wanted || !own_core_) return;
    int index = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (!CPU_ISSET(cpu, &all_)) continue;
      if (index++ != place.rank) continue;
      CPU_ZERO(&own_);
      CPU_SET(cpu, &own_);
    }
  }
  bool own_core() const noexcept { return own_core_; }
  void bind() const noexcept { ::sched_setaffinity(0, sizeof own_, &own_); }
  void release() const noexcept { ::sched_setaffinity(0, sizeof all_, &all_); }

 private:
  cpu_set_t all_;
  cpu_set_t own_;
  bool own_core_ = false;
};

json event_of(std::int64_t round, double barrier_ns, const std::vector<Block>& blocks) {
  json list = json::array();
  for (const Block& block : blocks) {
    json samples = json::array();
    for (double ns : block.samples_ns) samples.push_back(std::round(ns * 100) / 100);
    list.push_back({{"op", to_string(block.operation)},
                    {"impl", block.candidate},
                    {"bytes", block.bytes},
                    {"samples", std::move(samples)},
                    {"voluntary", block.cost.voluntary},
                    {"involuntary", block.cost.involuntary},
                    {"processor_ns", block.cost.processor_ns}});
  }
  return {{"round", round}, {"barrier_ns", barrier_ns}, {"blocks", std::move(list)}};
}

json to_json(const CountedCalls& counted) {
  json functions = json::array();
  for (const auto& each : counted.functions) {
    functions.push_back({{"name", each.name},
                         {"others", each.is_of_other_threads},
                         {"kind", each.kind},
                         {"calls", each.calls},
                         {"in_vain", each.in_vain},
                         {"bytes", each.bytes},
                         {"ns", each.ns}});
  }
  return {{"op", to_string(counted.operation)}, {"impl", counted.candidate}, {"bytes", counted.bytes}, {"calls", counted.calls}, {"ns", counted.ns},
          {"functions", std::move(functions)}};
}

/// Returns, on rank 0, what all ranks have counted in the last round, by rank; every rank calls it.
json gather_counts(const Plan& plan, Arena& arena, const Session& session) {
  const auto file_of = [&](int rank) { return plan.folder + "/counts." + std::to_string(rank); };
  json own = json::array();
  for (const CountedCalls& each : session.counted_calls()) own.push_back(to_json(each));
  if (std::ofstream file(file_of(arena.rank())); !(file << own.dump()).flush()) throw std::runtime_error("cannot write " + file_of(arena.rank()));
  arena.barrier();
  json all = json::array();
  for (int rank = 0; arena.rank() == 0 && rank < arena.ranks(); ++rank) all.push_back(json::parse(std::ifstream(file_of(rank))));
  return all;
}

/// Begins this program anew with the library that counts, which lies beside it. Returns where it is loaded already.
void load_counts(char** argv) {
  const std::filesystem::path library = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "libunisono-counts.so";
  const char* const loaded = std::getenv("LD_PRELOAD");
  const std::string before = loaded == nullptr ? "" : loaded;
  if (before.starts_with(library.string())) return;
  if (!std::filesystem::exists(library)) throw std::runtime_error(library.string() + " is missing, which counts what a call takes");
  ::setenv("LD_PRELOAD", (library.string() + (before.empty() ? "" : ":" + before)).c_str(), 1);
  ::execv("/proc/self/exe", argv);
  throw std::system_error(errno, std::generic_category(), "cannot begin anew");
}

void measure(const Plan& plan, Arena& arena, Candidates& candidates, const std::string& backend, BenchDevice* device) {
  Session session(plan, arena, candidates, device);
  std::optional<Line> line;
  if (arena.rank() == 0) line.emplace(plan);
  if (line) line->report({{"backend", backend}});
  for (;;) {
    const std::int64_t round = arena.agree_on_maximum(line ? line->next_round() : -1);
    if (round < 0) return;
    const double barrier_ns = session.barrier_ns();
    try {
      const auto report_part = [&](double part) { line->report({{"part", part}}); };
      const bool reports = line && plan.reports_on("progress");
      const std::vector<Block> blocks =
          session.round(static_cast<std::uint64_t>(round), reports ? std::function<void(double)>(report_part) : std::function<void(double)>());
      json event = event_of(round, barrier_ns, blocks);
      if (plan.reports_on("counts")) event["counts"] = gather_counts(plan, arena, session);
      if (line) line->report(event);
    } catch (const WrongResult& wrong) {
      // All ranks throw it alike, so all of them can still leave in good order.
      if (line) line->report({{"wrong", wrong.what()}});
      return;
    }
  }
}

void take_part(const Plan& plan, Place place) {
  if (place.ranks != plan.ranks)
    throw std::runtime_error("started as one of " + std::to_string(place.ranks) + " processes instead of " + std::to_string(plan.ranks));
  const Binding binding(place, plan.bind);
  Arena arena(plan.arena, place.rank, place.ranks, binding.own_core(), plan.timeout);
  try {
    std::optional<BenchDevice> device;
    if (plan.on_device) device.emplace(engines::nccl::vendor(engines::nccl::Wanted::runtime_only), place.rank, plan.timeout);
    BenchDevice* const used = device ? &*device : nullptr;
    Candidates candidates;
    // Threads of a library may run anywhere, as they would without a bench; this includes the engine that unisono uses.
    for (const Peer& peer : peers()) peer.add(candidates, plan, place);
    const bool own_threads = plan.on_device || (plan.backend != "auto" && plan.backend != "native");
    if (!own_threads) binding.bind();
    const std::string backend = add_unisono(candidates, plan, place);
    binding.bind();
    add_starter(candidates, plan, place);
    add_roofline(candidates, used);
    for (const auto& candidate : candidates) {
      if (candidate->needs_progress()) arena.while_waiting([waits = candidate.get()] { waits->progress(); });
    }
    arena.barrier();
    measure(plan, arena, candidates, backend, used);
    arena.barrier();
    arena.while_waiting({});
    candidates.clear();
    leave_unisono();
  } catch (...) {
    arena.fail();
    throw;
  }
}

/// Returns the peers of this driver with their versions, or why there are none.
json description(const std::string& peer) {
  json described = json::array();
  try {
    std::vector<PeerVersion> versions = starters(peer);
    for (const Peer& each : peers()) std::ranges::move(each.versions(peer), std::back_inserter(versions));
    for (const PeerVersion& each : versions) described.push_back({{"name", each.name}, {"version", each.version}});
  } catch (const Error& error) {
    return {{"why_not", error.message()}};
  } catch (const std::exception& error) {
    return {{"why_not", error.what()}};
  }
  return described;
}

int run(int argc, char** argv) {
  if (argc >= 2 && std::string_view(argv[1]) == "--describe") {
    std::cout << description(argc > 2 ? argv[2] : "").dump() << std::endl;
    return 0;
  }
  if (argc != 2) throw std::runtime_error("this program is started by unisono bench, with the path of a plan");
  std::ifstream file(argv[1]);
  if (!file) throw std::runtime_error("cannot read the plan " + std::string(argv[1]));
  const Plan plan = plan_from_json(std::string(std::istreambuf_iterator<char>(file), {}));
  if (plan.reports_on("counts")) load_counts(argv);
  const Place place = join_processes(plan);
  try {
    take_part(plan, place);
  } catch (const PeerGaveUp&) {
    throw;
  } catch (const std::exception& error) {
    std::ofstream(plan.folder + "/error." + std::to_string(place.rank)) << error.what();
    throw;
  }
  leave_processes();
  return 0;
}

}  // namespace

}  // namespace unisono::bench

int main(int argc, char** argv) {
  try {
    return unisono::bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "unisono bench: " << error.what() << std::endl;
    return 1;
  }
}
