#pragma once

#include <mpi.h>

#include <memory>
#include <vector>

#include "engines/mpi/engine.h"

namespace unisono::engines::mpi {

/// Requests of MPI as a task. Threads that may call MPI begin and advance it.
class RequestTask : public Task {
 public:
  explicit RequestTask(std::shared_ptr<Communicator> communicator) : communicator_(std::move(communicator)) {}
  ~RequestTask() override;
  RequestTask(const RequestTask&) = delete;
  RequestTask& operator=(const RequestTask&) = delete;

  bool advance() override;
  bool wakes_waiter() const override { return false; }

  /// Begins the requests: called once by a thread that may call MPI, in the order of the group's calls.
  void begin();

 protected:
  Communicator& communicator() const { return *communicator_; }
  virtual void issue(std::vector<MPI_Request>& requests) = 0;
  virtual void finish() {}

 private:
  std::shared_ptr<Communicator> communicator_;
  std::vector<MPI_Request> requests_;
  std::size_t next_ = 0;  ///< the first that is not known to be done
  bool begun_ = false, done_ = false;
};

class CollectiveTask final : public RequestTask {
 public:
  CollectiveTask(const std::shared_ptr<Communicator>& shared, const CollectiveCall& call)
      : RequestTask(shared), call_(call), collective_(shared->members(), call_) {}
  std::vector<int> waiting_for() const override;

 private:
  void issue(std::vector<MPI_Request>& requests) override { collective_.issue(Nonblocking{requests}); }
  void finish() override { collective_.finish(); }

  CollectiveCall call_;
  Collective collective_;
};

/// Sends or receives bytes.
class Transfer final : public RequestTask {
 public:
  struct Plan {
    void* data = nullptr;
    std::size_t bytes = 0;
    int peer = 0, tag = 0;
    bool sends = false;
  };
  Transfer(const std::shared_ptr<Communicator>& shared, const Plan& plan) : RequestTask(shared), plan_(plan) {}
  std::vector<int> waiting_for() const override { return {plan_.peer}; }

 private:
  void issue(std::vector<MPI_Request>& requests) override;

  Plan plan_;
};

}  // namespace unisono::engines::mpi
