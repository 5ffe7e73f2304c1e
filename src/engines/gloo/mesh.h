#pragma once

#include <gloo/transport/tcp/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/tcp/pair.h>
#include <gloo/transport/tcp/unbound_buffer.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

// Gloo's TCP transport, made safe for use in a process. Its thread serves all connections and has no catch of its own, so an exception there would
// end the process. It also loses some buffers when a connection breaks, so that waits for them do not end, and its timeouts cannot be changed. These
// classes correct that in the virtual functions that Gloo's TLS transport is built on.

namespace unisono::engines {

using Clock = std::chrono::steady_clock;

/// The connections of one rank with all others.
class Mesh final : public gloo::transport::tcp::Context {
 public:
  /// The mesh must be connected by `deadline`.
  Mesh(std::shared_ptr<gloo::transport::tcp::Device> device, int own_rank, int ranks, Clock::time_point deadline);
  ~Mesh() override;

  std::unique_ptr<gloo::transport::Pair>& createPair(int rank) override;
  std::unique_ptr<gloo::transport::UnboundBuffer> createUnboundBuffer(void* data, std::size_t bytes) override;

  /// Called when all connections exist: from then on only `abort` ends a wait.
  void set_connected() { connected_ = true; }
  Clock::time_point deadline() const { return deadline_; }
  /// Returns how long Gloo may wait for one operation.
  std::chrono::milliseconds patience() const;
  /// Ends all waits and connections; the peers are told. Any thread may call it, any number of times.
  void abort() noexcept;
  bool is_over() const { return over_; }
  /// Returns the rank whose connection an error of Gloo is about, which names only addresses; -1: none.
  int rank_in(std::string_view text) const;

 private:
  friend class Buffer;
  friend class Connection;

  const Clock::time_point deadline_;
  std::atomic<bool> connected_ = false, over_ = false;
  std::mutex buffers_mutex_;
  std::vector<class Buffer*> buffers_;  // those of the current collective
};

/// Memory of one collective, to send from or to receive into.
class Buffer final : public gloo::transport::tcp::UnboundBuffer {
 public:
  Buffer(std::shared_ptr<Mesh> mesh, void* data, std::size_t bytes);
  ~Buffer() override;

  using gloo::transport::tcp::UnboundBuffer::recv;
  bool waitRecv(int* rank, std::chrono::milliseconds timeout) override;
  bool waitSend(int* rank, std::chrono::milliseconds timeout) override;
  void send(int to, std::uint64_t slot, std::size_t offset, std::size_t bytes) override;
  void recv(int from, std::uint64_t slot, std::size_t offset, std::size_t bytes) override;

  /// Fails the waits for this buffer with an exception.
  void end(std::exception_ptr why) { signalException(std::move(why)); }

 private:
  void check() const;

  std::shared_ptr<Mesh> mesh_;
};

class Connection final : public gloo::transport::tcp::Pair {
 public:
  Connection(Mesh& mesh, gloo::transport::tcp::Device* device, int rank);
  ~Connection() override;

  void handleEvents(int events) override;
  const std::string& peer_name() const { return peer_name_; }

 private:
  bool write(gloo::transport::tcp::Op& op) override;
  void changeState(state next) noexcept override;
  void waitUntilConnected(std::unique_lock<std::mutex>& lock, bool use_timeout) override;
  void give_up(const std::string& why) noexcept;
  void tell(const gloo::WeakNonOwningPtr<gloo::transport::tcp::UnboundBuffer>& weak) const;

  Mesh& mesh_;
  std::string peer_name_;  // set once it is connected
};

}  // namespace unisono::engines
