#include "engines/gloo/mesh.h"

#include <fcntl.h>
#include <gloo/common/error.h>
#include <sched.h>
#include <sys/socket.h>

#include <algorithm>

#include "engines/gloo/layout.h"

namespace unisono::engines {
namespace {

namespace tcp = gloo::transport::tcp;

// Long enough for any wait, short enough for Gloo's arithmetic.
constexpr std::chrono::hours for_ever{24 * 365};

/// True while this thread is inside Gloo's send or recv: it then holds the lock of all connections, for which Gloo's thread may be waiting.
thread_local bool posting = false;
struct Posting {
  Posting() { posting = true; }
  ~Posting() { posting = false; }
};

void close_on_exec(int fd) { ::fcntl(fd, F_SETFD, FD_CLOEXEC); }

}  // namespace

Mesh::Mesh(std::shared_ptr<tcp::Device> device, int own_rank, int ranks, Clock::time_point deadline)
    : tcp::Context(std::move(device), own_rank, ranks), deadline_(deadline) {}

// The pairs refer to this object.
Mesh::~Mesh() { pairs_.clear(); }

std::unique_ptr<gloo::transport::Pair>& Mesh::createPair(int peer) {
  auto& pair = pairs_.at(static_cast<std::size_t>(peer));
  pair = std::make_unique<Connection>(*this, device_.get(), peer);
  return pair;
}

std::unique_ptr<gloo::transport::UnboundBuffer> Mesh::createUnboundBuffer(void* data, std::size_t bytes) {
  return std::make_unique<Buffer>(std::static_pointer_cast<Mesh>(shared_from_this()), data, bytes);
}

std::chrono::milliseconds Mesh::patience() const {
  if (connected_) return for_ever;
  return std::max(std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now()), std::chrono::milliseconds(1));
}

void Mesh::abort() noexcept {
  try {
    {
      // Waiting threads are woken here: when Gloo closes a connection, only the other side learns of it.
      const std::lock_guard lock(buffers_mutex_);
      over_ = true;
      for (Buffer* buffer : buffers_) {
        buffer->abortWaitRecv();
        buffer->abortWaitSend();
      }
    }
    for (auto& pair : pairs_) {
      if (pair) pair->close();
    }
  } catch (...) {  // NOLINT(bugprone-empty-catch)
    // The code above only locks and notifies: there is nothing else to try.
  }
}

int Mesh::rank_in(std::string_view text) const {
  for (std::size_t r = 0; r < pairs_.size(); ++r) {
    if (!pairs_[r]) continue;
    const std::string& name = static_cast<const Connection&>(*pairs_[r]).peer_name();
    if (!name.empty() && text.find(name) != std::string_view::npos) return static_cast<int>(r);
  }
  return -1;
}

Buffer::Buffer(std::shared_ptr<Mesh> mesh, void* data, std::size_t bytes) : tcp::UnboundBuffer(mesh, data, bytes), mesh_(std::move(mesh)) {
  const std::lock_guard lock(mesh_->buffers_mutex_);
  mesh_->buffers_.push_back(this);
}

Buffer::~Buffer() {
  const std::lock_guard lock(mesh_->buffers_mutex_);
  std::erase(mesh_->buffers_, this);
}

void Buffer::check() const {
  if (mesh_->is_over()) throw gloo::IoException("the group has been ended");
}

// A wait that begins after `abort` fails in check(). One that began before is woken by it and returns false.
bool Buffer::waitRecv(int* rank, std::chrono::milliseconds) {
  check();
  if (!tcp::UnboundBuffer::waitRecv(rank, mesh_->patience())) throw gloo::IoException("the group has been ended");
  return true;
}

bool Buffer::waitSend(int* rank, std::chrono::milliseconds) {
  check();
  if (!tcp::UnboundBuffer::waitSend(rank, mesh_->patience())) throw gloo::IoException("the group has been ended");
  return true;
}

void Buffer::send(int to, std::uint64_t slot, std::size_t offset, std::size_t bytes) {
  check();
  const Posting here;
  tcp::UnboundBuffer::send(to, slot, offset, bytes);
}

void Buffer::recv(int from, std::uint64_t slot, std::size_t offset, std::size_t bytes) {
  check();
  const Posting here;
  tcp::UnboundBuffer::recv(from, slot, offset, bytes);
}

// The connection listens from here on. Gloo multiplies the timeout it is given by five; ours is the deadline, see waitUntilConnected.
Connection::Connection(Mesh& mesh, tcp::Device* device, int rank) : tcp::Pair(&mesh, device, rank, gloo::kNoTimeout), mesh_(mesh) {
  const std::lock_guard lock(m_);
  close_on_exec(fd_);
}

// Closes softly, so that sent bytes still arrive. The base class must not do it, since its own handleEvents could be called meanwhile.
Connection::~Connection() {
  const std::lock_guard lock(m_);
  if (state_ != CLOSED) Connection::changeState(CLOSED);
}

constexpr int tries_before_yield = 100;

void Connection::handleEvents(int events) {
  // While another thread uses the connection, Gloo's thread would return to it at once and for ever. On that thread's own processor it would delay it
  // until the scheduler's next tick.
  for (int tries = 0; !m_.try_lock(); ++tries) {
    if (tries < tries_before_yield) continue;
    ::sched_yield();
    return;
  }
  m_.unlock();
  std::string why;
  try {
    tcp::Pair::handleEvents(events);
    return;
  } catch (const std::exception& error) {
    why = error.what();
  } catch (...) {
    why = "an unknown exception on Gloo's thread";
  }
  give_up(why);
}

/// Runs on Gloo's thread. Where another thread is using the connection, the event is still pending the next time.
void Connection::give_up(const std::string& why) noexcept {
  try {
    const std::unique_lock lock(m_, std::try_to_lock);
    if (!lock || state_ == CLOSED) return;
    if (ex_ == nullptr) {
      signalException(why);
    } else {
      changeState(CLOSED);
    }
  } catch (...) {  // NOLINT(bugprone-empty-catch)
    // Out of memory: the same event comes again.
  }
}

bool Connection::write(tcp::Op& op) {
  if (tcp::Pair::write(op)) return true;
  if (ex_ != nullptr) tell(op.ubuf);  // it is in no queue
  return false;
}

void Connection::tell(const gloo::WeakNonOwningPtr<tcp::UnboundBuffer>& weak) const {
  const gloo::NonOwningPtr<tcp::UnboundBuffer> buffer(weak);
  if (buffer) static_cast<Buffer*>(buffer.operator->())->end(ex_);
}

/// Called with the lock held, from any thread.
void Connection::changeState(state next) noexcept {
  if (next == CLOSED) {
    if (posting && state_ == CONNECTED) {
      // Closing waits for Gloo's thread, which may wait for one of our locks. Gloo's thread closes the connection when it sees its end.
      ::shutdown(fd_, SHUT_RDWR);
      return;
    }
    if (ex_ != nullptr) {
      // Gloo tells the buffers whose turn had not come, but not those whose bytes were in transfer.
      tell(rx_.ubuf);
      for (const tcp::Op& op : tx_) tell(op.ubuf);
    }
  }
  tcp::Pair::changeState(next);
  if (next == CONNECTING || next == CONNECTED) close_on_exec(fd_);
  if (next == CONNECTED) peer_name_ = peer_.str();
}

void Connection::waitUntilConnected(std::unique_lock<std::mutex>& lock, bool) {
  const bool done = cv_.wait_until(lock, mesh_.deadline(), [this] {
    throwIfException();
    return state_ >= CONNECTED;
  });
  if (!done) signalAndThrowException("rank " + std::to_string(rank_) + " did not connect");
}

}  // namespace unisono::engines
