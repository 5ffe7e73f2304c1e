#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "harness/operations.h"
#include "harness/plan.h"
#include "unisono/tensor.h"

namespace unisono::bench {

/// A call to be measured: the operation and its buffers. Rooted operations have root 0, reductions sum; send_recv sends to the next rank and
/// receives from the one before. In place, `in` and `out` are the same memory. Message k of a window lies at place k modulo the places of the buffer.
struct Job {
  Operation operation = Operation::barrier;
  DType dtype = DType::float32;
  Shape shape = {};
  void* in = nullptr;
  void* out = nullptr;
  Device device = {};  ///< where both lie. On a device, a call is put on the thread's current stream and need not be over when it returns

  bool in_place() const noexcept { return in == out; }
  /// Returns the first element of a message of a window.
  std::size_t place_of(std::size_t message) const noexcept { return message % (shape.in / shape.size) * shape.size; }
};

/// An implementation that can do a Job: this library, a peer, or the roofline. All ranks select and call in the same order.
class Candidate {
 public:
  virtual ~Candidate() = default;
  Candidate(const Candidate&) = delete;
  Candidate& operator=(const Candidate&) = delete;

  /// Returns the name in the results.
  virtual std::string_view name() const = 0;
  virtual bool supports(Operation operation, DType dtype) const = 0;
  /// Prepares calls of this job, outside the timing. The job's buffers stay until the next selection.
  virtual void select(const Job& job) = 0;
  virtual void call() = 0;
  /// Returns true if what a call has begun may need `progress` when it has returned.
  virtual bool needs_progress() const { return false; }
  /// Lets that go on; called while the rank waits for others outside of a call.
  virtual void progress() {}

 protected:
  Candidate() = default;
};

using Candidates = std::vector<std::unique_ptr<Candidate>>;

/// The rank and number of ranks of this process in its set.
struct Place {
  int rank = 0;
  int ranks = 1;
};

/// Joins the job, adds the candidates that the plan asks for, and returns the backend that serves them. `unisono` and `unisono-unchecked` share one
/// group.
std::string add_unisono(Candidates& candidates, const Plan& plan, Place place);
/// Leaves the job; the candidates of add_unisono must not be called any more.
void leave_unisono();

/// A library that a driver measures.
struct PeerVersion {
  std::string name;  ///< as the driver was asked for it
  std::string version;
};

// The ranks of a driver are started by an MPI, or by unisono run: exactly one implementation of these functions is linked into it.
Place join_processes(const Plan& plan);
/// Adds the peer that has started the processes, if the plan asks for it.
void add_starter(Candidates& candidates, const Plan& plan, Place place);
/// Throws std::runtime_error if this driver cannot measure `mpi`, a file or the name of one of the system.
std::vector<PeerVersion> starters(const std::string& mpi);
void leave_processes();

/// A library that measures itself in any driver, if it was found.
struct Peer {
  void (*add)(Candidates& candidates, const Plan& plan, Place place);  ///< adds its candidates that the plan asks for
  /// Tells the versions of its candidates; nothing of a library that it opens only if it is asked for. Throws why that cannot be measured.
  std::vector<PeerVersion> (*versions)(std::string_view asked_for);
};
/// Returns the peers of this driver; each adds itself before main.
inline std::vector<Peer>& peers() {
  static std::vector<Peer> all;
  return all;
}
inline std::size_t add_peer(const Peer& peer) {
  peers().push_back(peer);
  return peers().size();
}

}  // namespace unisono::bench
