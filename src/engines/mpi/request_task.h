#pragma once

#include <mpi.h>

#include <memory>
#include <vector>

#include "engines/mpi/communicator.h"
#include "unisono/task.h"

namespace unisono::engines::mpi {

/// Requests of MPI as a task. Threads that may call MPI begin and advance it.
class RequestTask : public Task, public Postponed {
 public:
  explicit RequestTask(std::shared_ptr<Communicator> communicator) : communicator_(std::move(communicator)) {}
  ~RequestTask() override = default;
  RequestTask(const RequestTask&) = delete;
  RequestTask& operator=(const RequestTask&) = delete;

  bool advance() override;
  bool wakes_waiter() const override { return false; }

  void begin() final;

 protected:
  Communicator& communicator() const { return *communicator_; }
  virtual void issue(std::vector<MPI_Request>& requests) = 0;
  virtual void finish() {}
  enum class Kind { send, receive, collective };
  virtual Kind kind() const noexcept = 0;
  /// Returns true where MPI works on a copy of the caller's memory, so that requests can be left to it.
  virtual bool has_copy() const noexcept { return false; }
  /// Sees to it that MPI does not touch the caller's memory when that is gone. Every class with such memory calls it in its destructor. Returns false
  /// where requests were left to MPI.
  bool settle() noexcept;

 private:
  bool ends_in_time() noexcept;

  std::shared_ptr<Communicator> communicator_;
  std::vector<MPI_Request> requests_;
  std::size_t next_ = 0;  ///< the first that is not known to be done
  bool begun_ = false, done_ = false;
};

/// A collective. MPI cannot be kept from writing into one that another member never begins. So it works on copies where a step before this one may
/// have failed there, and on copies of short vectors always.
class CollectiveTask final : public RequestTask {
 public:
  CollectiveTask(const std::shared_ptr<Communicator>& shared, const CollectiveCall& call)
      : RequestTask(shared), parts_(std::make_unique<Parts>(shared->members(), call)) {}
  ~CollectiveTask() override;
  CollectiveTask(const CollectiveTask&) = delete;
  CollectiveTask& operator=(const CollectiveTask&) = delete;
  std::vector<int> waiting_for() const override;

 private:
  /// All that MPI reads and writes until its requests are done, apart from the memory of long vectors.
  struct Parts {
    Parts(const Members& members, const CollectiveCall& given);
    void copy_back() const;

    CollectiveCall call;
    std::byte* result = nullptr;  ///< the caller's memory, where MPI works on a copy
    std::unique_ptr<std::byte[]> copies;
    Collective collective;
  };

  void issue(std::vector<MPI_Request>& requests) override { parts_->collective.issue(Nonblocking{requests}); }
  void finish() override;
  Kind kind() const noexcept override { return Kind::collective; }
  bool has_copy() const noexcept override { return parts_->copies != nullptr; }

  std::unique_ptr<Parts> parts_;
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
  Kind kind() const noexcept override { return plan_.sends ? Kind::send : Kind::receive; }

  Plan plan_;
};

}  // namespace unisono::engines::mpi
