#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "torch/remote/wire.h"
#include "unisono/detail/remote_call.h"

// What a controller's process knows of the tensors on its workers.

namespace unisono::libtorch {

/// The commands for one worker, in their order.
class Channel {
 public:
  Channel(std::weak_ptr<detail::RemoteWorkers> workers, int worker) : workers_(std::move(workers)), worker_(worker) {}

  /// Sends a command, and takes along what was dropped. `write` appends the command; it is called with the lock that keeps commands in order.
  ///
  /// @throws PeerFailed if the worker is dead
  /// @throws NotInitialized after the controller's end
  template <class Write>
  std::shared_ptr<detail::RemoteCall> send(Write&& write, bool has_result, std::vector<detail::FramePart> parts = {},
                                           detail::PartMemory memory = {}) {
    const std::lock_guard lock(order_);
    return send_in_order(std::forward<Write>(write), has_result, std::move(parts), std::move(memory));
  }
  /// Sends a command and waits for its answer.
  ///
  /// @throws RemoteError if an earlier command, or this one, has failed
  template <class Write>
  detail::Frame ask(Write&& write, detail::PartMemory memory = {}) {
    return answer_of(send(std::forward<Write>(write), true, {}, std::move(memory)));
  }
  /// Returns the answer to a command, or throws what the worker reports.
  detail::Frame answer_of(const std::shared_ptr<detail::RemoteCall>& call) const;

  /// Tells whether the worker knows this operator's name. To be called while a command is written.
  bool knows_operator(std::uint32_t number) const { return number < known_.size() && known_[number]; }
  /// Notes that it does, since a command with the name was sent.
  void note_operator(std::uint32_t number);
  /// Refuses tensors of a worker that was replaced since. To be called while a command is written.
  ///
  /// @throws InvalidArgument
  void require(int generation) const;
  /// The same before one of several commands that belong together is written.
  ///
  /// @throws PeerFailed if the worker is dead
  /// @throws NotInitialized after the controller's end
  void require_now(int generation) const;
  /// Has the worker drop a storage, or a generator, behind all commands that were sent: the next one takes it along. It sends nothing itself, since
  /// the caller may hold a lock for which those wait that send: Python's, for one.
  void drop(std::uint64_t number) noexcept;
  /// Returns the lock that keeps commands in order, for those of several workers.
  std::recursive_mutex& order() noexcept { return order_; }
  /// Sends with that lock held.
  template <class Write>
  std::shared_ptr<detail::RemoteCall> send_in_order(Write&& write, bool has_result, std::vector<detail::FramePart> parts = {},
                                                    detail::PartMemory memory = {}) {
    const std::vector<std::uint64_t> dropped = take_dropped();
    try {
      WireWriter out = begin(dropped);
      write(out);
      return finish(out, has_result, std::move(parts), std::move(memory));
    } catch (...) {
      put_back(dropped);  // a later command takes them along
      throw;
    }
  }

 private:
  /// Returns what was dropped since the last command. Forgets what the process before this one of the worker had.
  std::vector<std::uint64_t> take_dropped();
  void put_back(const std::vector<std::uint64_t>& dropped);
  static WireWriter begin(const std::vector<std::uint64_t>& dropped);
  std::shared_ptr<detail::RemoteCall> finish(WireWriter& out, bool has_result, std::vector<detail::FramePart> parts, detail::PartMemory memory);

  std::weak_ptr<detail::RemoteWorkers> workers_;
  int worker_;
  std::recursive_mutex order_;  // since a callback of a call that ends meanwhile may send, too
  std::vector<bool> known_;     // operators
  int generation_ = 0;          // of the worker that knows them
  std::mutex dropping_;
  std::vector<std::uint64_t> dropped_;
};

/// The tensors of one controller.
class Session {
 public:
  explicit Session(const std::shared_ptr<detail::RemoteWorkers>& workers);

  int size() const noexcept { return static_cast<int>(channels_.size()); }
  Channel& channel(int worker) { return *channels_.at(static_cast<std::size_t>(worker)); }
  /// Returns a number for a storage or a generator. Those of storages that a worker makes are odd.
  std::uint64_t new_storage() noexcept { return next_.fetch_add(2, std::memory_order_relaxed); }
  std::shared_ptr<detail::RemoteWorkers> workers() const { return workers_.lock(); }
  /// Returns how often the worker was replaced.
  int generation(int worker) const;
  /// Has the worker's process made ready for commands, if it is not. See prepare_workers.
  void prepare(int worker);

 private:
  std::weak_ptr<detail::RemoteWorkers> workers_;
  std::vector<std::unique_ptr<Channel>> channels_;
  std::atomic<std::uint64_t> next_{2};
  std::mutex preparing_;
  std::vector<int> prepared_;  // the generation of each worker's process that is ready, or -1
};

/// Has this function called before a process of a worker gets its first command: in Python the library that carries them out must be loaded there. It
/// makes a call of its own, which the commands follow.
void prepare_workers(void (*prepare)(int worker)) noexcept;

/// Returns the session of the controller that was made last.
///
/// @throws NotInitialized without a controller
std::shared_ptr<Session> current_session();
/// Returns the same; null without one.
std::shared_ptr<Session> find_session() noexcept;
/// Makes tensors of this controller's workers possible from now on.
void begin_session(const std::shared_ptr<detail::RemoteWorkers>& workers);

/// The context of a storage's data pointer: where the elements are.
struct Handle {
  std::shared_ptr<Session> session;
  int worker = -1;
  int generation = 0;
  std::uint64_t storage = 0;

  Handle(std::shared_ptr<Session> of, int on, std::uint64_t number);
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle();
  Channel& channel() const { return session->channel(worker); }
};

inline bool is_remote(const at::Tensor& tensor) { return tensor.device().type() == at::kPrivateUse1; }
/// Returns the handle of a remote tensor's storage.
///
/// @throws InvalidArgument for a tensor whose elements are gone: its controller has ended, or its worker was replaced
const Handle& handle_of(const at::Tensor& tensor);
/// Returns the geometry of a tensor.
Geometry geometry_of(const at::Tensor& tensor);
/// Returns the Flags of a tensor.
inline std::uint8_t flags_of(const at::Tensor& tensor) {
  return static_cast<std::uint8_t>((tensor.unsafeGetTensorImpl()->is_wrapped_number() ? Flag::wrapped_number : 0) |
                                   (tensor.is_conj() ? Flag::conjugate : 0) | (tensor.is_neg() ? Flag::negative : 0));
}
/// Writes which elements of which storage a remote tensor has, all but dtype, sizes and strides.
void write_place(WireWriter& out, const at::Tensor& tensor);
/// Writes the whole of it.
void write_tensor(WireWriter& out, const at::Tensor& tensor);

/// Makes a storage of a worker. The worker learns of it when it is used.
c10::Storage make_storage(const std::shared_ptr<Session>& session, int worker, std::uint64_t number, std::size_t bytes);
/// Makes a tensor that is all of a new storage.
at::Tensor make_tensor(const std::shared_ptr<Session>& session, int worker, const Geometry& geometry);
/// Makes a tensor of a storage that the worker has made.
at::Tensor make_tensor(const std::shared_ptr<Session>& session, int worker, const Geometry& geometry, std::uint64_t number);
/// Makes a tensor that shares another's storage.
at::Tensor make_view(const at::Tensor& base, const Geometry& geometry);
/// Has every access to the storage's memory throw.
void forbid_data(c10::StorageImpl& storage);

}  // namespace unisono::libtorch
