// The transfers of a group: they begin, go on, and end. worker_ending.cpp ends the worker itself.
#include "engines/ucx/worker.h"

#include <sched.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "unisono/error.h"

namespace unisono::engines::ucx {
namespace {

/// Calls of progress in a row, so that a rank that receives without end still looks at its own transfer.
constexpr int most_steps = 16;

/// A message's tag: the sender's rank in the group, and the channel.
ucp_tag_t tag_of(int rank, std::uint32_t channel) { return static_cast<ucp_tag_t>(rank) << 32U | channel; }
constexpr ucp_tag_t whole_tag = ~ucp_tag_t{0};

}  // namespace

Worker::Worker(const EngineOptions& options)
    : context_(Context::of(options)),
      rank_(options.rank),
      global_ranks_(options.global_ranks),
      notify_(options.notify),
      has_sleeper_(options.has_sleeper),
      can_notify_(options.notify && options.has_sleeper),
      peers_(static_cast<std::size_t>(options.size())) {
  for (Peer& peer : peers_) peer.worker = this;
  open(options);
}

void Worker::connect(std::vector<std::string> addresses, const base::Deadline& deadline) {
  for (std::size_t r = 0; r < peers_.size(); ++r) peers_[r].address = std::move(addresses[r]);
  if (peers_.size() > static_cast<std::size_t>(most_ranks_connected_at_once)) return;
  try {
    greet(deadline);
  } catch (...) {
    abort("the group was not formed");
    throw;
  }
}

void Worker::greet(const base::Deadline& deadline) {
  std::deque<Transfer> greetings;
  // It ends the transfers before their memory goes.
  const std::unique_ptr<Worker, void (*)(Worker*)> guard(this, [](Worker* worker) {
    if (worker->first_ != nullptr) worker->abort("the group was not formed");
  });
  for (int r = 0; r < static_cast<int>(peers_.size()); ++r) {
    if (r == rank_) continue;
    for (const auto kind : {Transfer::Kind::receive, Transfer::Kind::send}) start(greetings.emplace_back(kind, r, 0), nullptr, greeting_channel);
  }
  std::vector<const Transfer*> open;
  do {
    open.clear();
    for (Transfer& greeting : greetings) {
      if (!advance(greeting)) open.push_back(&greeting);
    }
    if (deadline.passed() && !open.empty()) {
      std::vector<int> missing;
      for (const Transfer* const one : open) missing.push_back(one->peer);
      missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
      throw Timeout(
          fmt::format("no connection by ucx with rank {} in time", fmt::join(missing, ", ")),
          {.operation = "initialize",
           .rank = rank_,
           .hint = "see that UCX_NET_DEVICES names a network that all hosts share; `unisono doctor --hosts A,B` shows what a firewall drops"},
          missing);
    }
    if (!open.empty()) ::sched_yield();
  } while (!open.empty());
}

void Worker::look() noexcept {
  const std::lock_guard lock(mutex_);
  if (handle_ != nullptr) progress();
}

void Worker::create_endpoint(int rank) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  if (peer.endpoint != nullptr || peer.status != UCS_OK) return;
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(peer.address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {.cb = on_peer_lost, .arg = &peer};
  if (const ucs_status_t status = library().ucp_ep_create(handle_, &params, &peer.endpoint); status != UCS_OK) {
    peer.endpoint = nullptr;
    throw BackendUnavailable(fmt::format("ucx finds no way to rank {}: {}", rank, text_of(library(), status)),
                             {.culprit = rank, .hint = "see that UCX_TLS and UCX_NET_DEVICES have transports that reach all ranks"});
  }
}

void Worker::on_sent(void* request, ucs_status_t status, void* transfer) {
  auto& ended = *static_cast<Transfer*>(transfer);
  Worker& worker = *ended.worker;
  worker.library().ucp_request_free(request);
  worker.end(ended, status);
}

void Worker::on_received(void* request, ucs_status_t status, const ucp_tag_recv_info_t* info, void* transfer) {
  auto& ended = *static_cast<Transfer*>(transfer);
  if (status == UCS_OK) ended.received = info->length;
  on_sent(request, status, transfer);
}

// UCX has failed the sends to this peer already; receives from it are not bound to an endpoint, so `advance` looks here.
void Worker::on_peer_lost(void* peer, ucp_ep_h, ucs_status_t status) {
  auto& lost = *static_cast<Peer*>(peer);
  lost.status = status;
  if (lost.worker->can_notify_) lost.worker->notify_();
}

void Worker::add(Transfer& transfer) noexcept {
  transfer.after = first_;
  if (first_ != nullptr) first_->before = &transfer;
  first_ = &transfer;
}

void Worker::end(Transfer& transfer, ucs_status_t status) noexcept {
  if (transfer.before != nullptr) transfer.before->after = transfer.after;
  else if (first_ == &transfer) first_ = transfer.after;
  if (transfer.after != nullptr) transfer.after->before = transfer.before;
  transfer.request = nullptr;
  transfer.status = status;
  transfer.has_ended.store(true, std::memory_order_release);
}

void Worker::start(Transfer& transfer, void* memory, std::uint32_t channel) {
  const std::lock_guard lock(mutex_);
  require_sound();
  create_endpoint(transfer.peer);
  Peer& peer = peers_[static_cast<std::size_t>(transfer.peer)];
  transfer.worker = this;
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  params.user_data = &transfer;
  ucs_status_ptr_t request = nullptr;
  if (transfer.kind == Transfer::Kind::send) {
    if (peer.status != UCS_OK) fail(transfer, peer.status);
    params.cb.send = on_sent;
    request = library().ucp_tag_send_nbx(peer.endpoint, memory, transfer.bytes, tag_of(rank_, channel), &params);
    has_sent_.store(true);
    context_->waker().look_after_sends();
  } else {
    params.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;  // UCX 1.13 tells the callback alone how long a message was
    params.cb.recv = on_received;
    // Into no memory at all, UCX drops what a longer message brings.
    const std::size_t room = transfer.kind == Transfer::Kind::discard ? 0 : transfer.bytes;
    request = library().ucp_tag_recv_nbx(handle_, memory, room, tag_of(transfer.peer, channel), whole_tag, &params);
  }
  if (transfer.has_ended.load(std::memory_order_relaxed)) return;
  if (!UCS_PTR_IS_PTR(request)) return end(transfer, UCS_PTR_STATUS(request));
  transfer.request = request;
  add(transfer);
}

void Worker::require_sound() const {
  if (!is_over_.load(std::memory_order_acquire)) [[likely]]
    return;
  const std::optional<int> culprit = culprit_ < 0 ? std::nullopt : std::optional(culprit_);
  throw PeerFailed(why_.empty() ? "the group is over" : why_, {.rank = rank_, .culprit = culprit}, PeerFailed::Cause::aborted);
}

void Worker::fail(const Transfer& transfer, ucs_status_t status) const {
  const int global = global_ranks_[static_cast<std::size_t>(transfer.peer)];
  throw PeerFailed(fmt::format("ucx's connection with rank {} broke: {}", global, text_of(library(), status)),
                   {.rank = rank_, .culprit = transfer.peer});
}

/// Returns true for a transfer that has ended well.
bool Worker::judge(const Transfer& transfer) const {
  const bool is_discarded = transfer.kind == Transfer::Kind::discard && transfer.status == UCS_ERR_MESSAGE_TRUNCATED;
  if (transfer.status == UCS_OK || is_discarded) [[likely]] {
    if (transfer.kind != Transfer::Kind::receive || transfer.received == transfer.bytes) return true;
    throw ProtocolError(fmt::format("rank {} has sent {} bytes where {} were expected", transfer.peer, transfer.received, transfer.bytes),
                        {.rank = rank_, .culprit = transfer.peer});
  }
  if (transfer.status == UCS_ERR_MESSAGE_TRUNCATED) {
    throw ProtocolError(fmt::format("rank {} has sent more than the {} bytes that were expected", transfer.peer, transfer.bytes),
                        {.rank = rank_, .culprit = transfer.peer});
  }
  require_sound();
  fail(transfer, transfer.status);
}

void Worker::progress() noexcept {
  for (int i = 0; i < most_steps && library().ucp_worker_progress(handle_) != 0; ++i) is_armed_.store(false, std::memory_order_relaxed);
}

bool Worker::advance(Transfer& transfer) {
  if (transfer.has_ended.load(std::memory_order_acquire)) return judge(transfer);
  const bool is_to_sleep = can_notify_ && has_sleeper_();
  std::unique_lock lock(mutex_, std::defer_lock);
  // Another thread that is in UCX brings this transfer forward too. It cannot make this thread be notified.
  if (is_to_sleep) lock.lock();
  else if (!lock.try_lock()) return false;
  if (handle_ != nullptr) {
    progress();
    if (is_to_sleep) prepare_sleep(transfer);
  }
  if (transfer.has_ended.load(std::memory_order_relaxed)) return judge(transfer);
  require_sound();
  const ucs_status_t status = peers_[static_cast<std::size_t>(transfer.peer)].status;
  if (status == UCS_OK) [[likely]]
    return false;
  // All that the peer sent before it went has been read by now.
  progress();
  if (transfer.has_ended.load(std::memory_order_relaxed)) return judge(transfer);
  fail(transfer, status);
}

/// Lets UCX's next event notify the thread, which is about to sleep.
void Worker::prepare_sleep(const Transfer& transfer) noexcept {
  constexpr int most_tries = 64;
  for (int i = 0; i < most_tries; ++i) {
    if (transfer.has_ended.load(std::memory_order_relaxed) || is_armed_.load(std::memory_order_acquire)) return;
    if (library().ucp_worker_arm(handle_) == UCS_OK) {
      is_armed_.store(true, std::memory_order_release);
      context_->waker().arm(descriptor_);
      return;
    }
    progress();
  }
  notify_();  // events keep coming, so there is no sleep now
}

/// A send has ended for UCX when its memory is free again; bytes of it may still be here, and only calls bring them forward. The rank may compute
/// meanwhile, or wait in another group. Returns true where some may be left.
bool Worker::tend() noexcept {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return true;  // somebody is in UCX
  if (handle_ == nullptr) return false;
  progress();
  if (flush_ == nullptr && has_sent_.exchange(false)) {
    const ucp_request_param_t none{};
    if (void* const request = library().ucp_worker_flush_nbx(handle_, &none); UCS_PTR_IS_PTR(request)) flush_ = request;
  }
  if (flush_ != nullptr && library().ucp_request_check_status(flush_) != UCS_INPROGRESS) library().ucp_request_free(std::exchange(flush_, nullptr));
  return flush_ != nullptr || has_sent_.load();
}

void Worker::drop(Transfer& transfer) noexcept {
  if (!transfer.has_ended.load(std::memory_order_acquire)) abort("a transfer was given up");
}

}  // namespace unisono::engines::ucx
