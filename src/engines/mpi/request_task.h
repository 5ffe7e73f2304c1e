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
  ~RequestTask() override = default;
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
  virtual bool is_receive() const noexcept { return false; }
  /// Returns true where MPI writes into memory of the call before the request is done.
  virtual bool is_written_by_mpi() const noexcept { return true; }
  /// Sees to it that MPI does not touch the call's memory when that is gone. Every class that owns or describes such memory calls it in its
  /// destructor.
  void settle() noexcept;

 private:
  bool ends_in_time() noexcept;

  std::shared_ptr<Communicator> communicator_;
  std::vector<MPI_Request> requests_;
  std::size_t next_ = 0;  ///< the first that is not known to be done
  bool begun_ = false, done_ = false;
};

class CollectiveTask final : public RequestTask {
 public:
  CollectiveTask(const std::shared_ptr<Communicator>& shared, const CollectiveCall& call)
      : RequestTask(shared), call_(call), collective_(shared->members(), call_) {}
  ~CollectiveTask() override { settle(); }
  CollectiveTask(const CollectiveTask&) = delete;
  CollectiveTask& operator=(const CollectiveTask&) = delete;
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
  ~Transfer() override { settle(); }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;
  std::vector<int> waiting_for() const override { return {plan_.peer}; }

 private:
  void issue(std::vector<MPI_Request>& requests) override;
  bool is_receive() const noexcept override { return !plan_.sends; }
  bool is_written_by_mpi() const noexcept override { return !plan_.sends; }

  Plan plan_;
};

}  // namespace unisono::engines::mpi
