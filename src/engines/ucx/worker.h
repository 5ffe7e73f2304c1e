#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "engines/ucx/context.h"
#include "unisono/engine.h"

namespace unisono::engines::ucx {

class Worker;

/// A send or a receive that UCX carries out. Its memory stays where it is until the transfer has ended.
struct Transfer {
  enum class Kind { send, receive, discard };
  Transfer(Kind its_kind, int of_peer, std::size_t its_bytes) : kind(its_kind), peer(of_peer), bytes(its_bytes) {}

  const Kind kind;
  const int peer;           ///< a rank of the group
  const std::size_t bytes;  ///< the length that both sides name
  Worker* worker = nullptr;
  // The members below are written under the worker's lock.
  void* request = nullptr;  ///< UCX's, while it is under way
  Transfer* before = nullptr;
  Transfer* after = nullptr;
  std::size_t received = 0;
  ucs_status_t status = UCS_OK;
  std::atomic<bool> has_ended{false};  ///< set last
};

/// The channel of the messages by which ranks connect; the largest that there is.
inline constexpr std::uint32_t greeting_channel = 0xffffffff;

/// UCX's worker of one group, and the endpoints to its peers. Each group has its own, so that no message of one group is taken for another's, and so
/// that a group that is over can be ended without the others: ending a worker is the one way in which UCX gives up every transfer.
///
/// UCX is used by one thread at a time: the one that has the lock brings the transfers of all threads forward.
class Worker {
 public:
  explicit Worker(const EngineOptions& options);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  const Library& library() const { return context_->library(); }
  /// Returns what a peer needs to reach this worker.
  std::string address() const;
  /// Takes the peers' addresses, by rank. Up to so many ranks, all are connected at once: an empty message goes each way. Beyond them, a connection
  /// is made when it is used first. Throws BackendUnavailable where UCX cannot reach a peer, Timeout where a peer does not answer.
  static constexpr int most_ranks_connected_at_once = 64;
  void connect(std::vector<std::string> addresses, const base::Deadline& deadline);
  /// Brings transfers forward although nobody waits for one.
  void look() noexcept;

  /// Begins a transfer. `memory` is not touched any more once it has ended.
  void start(Transfer& transfer, void* memory, std::uint32_t channel);
  /// Goes on with what is under way and returns true if the transfer has ended well. Throws PeerFailed where the peer is lost, ProtocolError where
  /// the lengths differ, and the reason where the group is over.
  bool advance(Transfer& transfer);
  /// Ends the group's transfers if this one is still under way.
  void drop(Transfer& transfer) noexcept;
  bool can_notify() const { return can_notify_; }

  /// Sends what is still to be sent, and ends. A peer may go before or after.
  void leave() noexcept;
  /// Ends. No memory of a transfer is touched after it.
  void abort(const std::string& why, int culprit = -1) noexcept;

 private:
  struct Peer {
    Worker* worker = nullptr;
    std::string address;
    ucp_ep_h endpoint = nullptr;
    ucs_status_t status = UCS_OK;  ///< an error once UCX has given the endpoint up
  };

  static void on_sent(void* request, ucs_status_t status, void* transfer);
  static void on_received(void* request, ucs_status_t status, const ucp_tag_recv_info_t* info, void* transfer);
  static void on_peer_lost(void* peer, ucp_ep_h endpoint, ucs_status_t status);

  void open(const EngineOptions& options);
  void create_endpoint(int rank);
  void greet(const base::Deadline& deadline);
  void require_sound() const;
  bool judge(const Transfer& transfer) const;
  [[noreturn]] void fail(const Transfer& transfer, ucs_status_t status) const;
  void end(Transfer& transfer, ucs_status_t status) noexcept;
  void add(Transfer& transfer) noexcept;
  void progress() noexcept;
  void prepare_sleep(const Transfer& transfer) noexcept;
  bool tend() noexcept;
  bool close(bool in_order, std::chrono::milliseconds limit) noexcept;
  void end_all(bool is_closed) noexcept;

  const std::shared_ptr<Context> context_;
  const int rank_;
  const std::vector<int> global_ranks_;
  const std::function<void()> notify_;
  const std::function<bool()> has_sleeper_;
  const bool can_notify_;
  mutable std::mutex mutex_;
  ucp_worker_h handle_ = nullptr;  ///< null once it has ended
  int descriptor_ = -1;            ///< its event descriptor
  std::atomic<bool> has_sent_{false};
  void* flush_ = nullptr;  ///< UCX's request, while it is sending what was sent
  std::atomic<bool> is_armed_{false};
  std::vector<Peer> peers_;
  Transfer* first_ = nullptr;  ///< those under way
  std::atomic<bool> is_over_{false};
  std::string why_;
  int culprit_ = -1;
};

}  // namespace unisono::engines::ucx
