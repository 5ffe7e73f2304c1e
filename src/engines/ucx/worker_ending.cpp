// How a worker begins and ends.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/deadline.h"
#include "engines/ucx/worker.h"
#include "unisono/error.h"

namespace unisono::engines::ucx {
namespace {

using namespace std::chrono_literals;

/// The time that the peers have to take what was sent to them, as long as that of our own connections.
constexpr auto leave_limit = 5000ms;
/// The time in which UCX has to give up its endpoints. What is left then ends with the worker.
constexpr auto abort_limit = 200ms;

}  // namespace

void Worker::open(const EngineOptions& options) {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_FLAGS;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;     // our lock lets one thread in at a time
  params.flags = UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK;  // an aborted worker ends with requests under way
  ucs_status_t status = library().ucp_worker_create(context_->handle(), &params, &handle_);
  if (status == UCS_OK) {
    ucp_worker_attr_t facts{};
    facts.field_mask = UCP_WORKER_ATTR_FIELD_THREAD_MODE;
    status = library().ucp_worker_query(handle_, &facts);
    if (status == UCS_OK && facts.thread_mode == UCS_THREAD_MODE_SINGLE) status = UCS_ERR_UNSUPPORTED;
  }
  if (status == UCS_OK) status = library().ucp_worker_get_efd(handle_, &descriptor_);
  if (status != UCS_OK) {
    if (handle_ != nullptr) library().ucp_worker_destroy(handle_);
    handle_ = nullptr;
    throw BackendUnavailable(fmt::format("ucx cannot make a worker: {}", text_of(library(), status)),
                             {.rank = options.rank, .hint = "check UCX_TLS and UCX_NET_DEVICES; `ucx_info -d` lists what there is"});
  }
  LookedAfter worker{.notify = {}, .tend = [this] { return tend(); }, .has_sent = [this] { return has_sent_.load(); }};
  if (can_notify_) {
    worker.notify = [this] {
      is_armed_.store(false, std::memory_order_release);
      notify_();
    };
  }
  context_->waker().add(descriptor_, std::move(worker));
}

std::string Worker::address() const {
  ucp_address_t* address = nullptr;
  std::size_t length = 0;
  if (const ucs_status_t status = library().ucp_worker_get_address(handle_, &address, &length); status != UCS_OK) {
    throw BackendUnavailable("ucx cannot say its address: " + text_of(library(), status), {.rank = rank_});
  }
  std::string text(reinterpret_cast<const char*>(address), length);
  library().ucp_worker_release_address(handle_, address);
  return text;
}

/// Returns false where UCX has not closed all endpoints in time.
bool Worker::close(bool in_order, std::chrono::milliseconds limit) noexcept {
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  std::vector<void*> requests;
  for (Peer& peer : peers_) {
    if (peer.endpoint == nullptr) continue;
    // An endpoint that UCX has given up has nothing to send any more.
    params.flags = in_order && peer.status == UCS_OK ? 0 : UCP_EP_CLOSE_FLAG_FORCE;
    void* const request = library().ucp_ep_close_nbx(peer.endpoint, &params);
    peer.endpoint = nullptr;
    if (UCS_PTR_IS_PTR(request)) requests.push_back(request);
  }
  for (const base::Deadline deadline(limit); !requests.empty() && !deadline.passed();) {
    library().ucp_worker_progress(handle_);
    std::erase_if(requests, [this](void* request) {
      if (library().ucp_request_check_status(request) == UCS_INPROGRESS) return false;
      library().ucp_request_free(request);
      return true;
    });
  }
  return requests.empty();
}

void Worker::end_all(bool is_closed) noexcept {
  const Quiet quiet;
  context_->waker().remove(descriptor_);
  if (flush_ != nullptr) library().ucp_request_free(std::exchange(flush_, nullptr));
  if (is_closed) {
    library().ucp_worker_destroy(handle_);
  } else {
    // UCX ends the process where a worker is destroyed before its endpoints are closed. One that nobody calls any more touches no memory either, so
    // it stays as it is, with its context.
    static_cast<void>(new std::shared_ptr<Context>(context_));  // NOLINT(bugprone-unhandled-exception-at-new): without memory the process ends
  }
  handle_ = nullptr;
  while (first_ != nullptr) end(*first_, UCS_ERR_CANCELED);
}

void Worker::leave() noexcept {
  if (!context_->is_of_this_process()) return;
  const std::lock_guard lock(mutex_);
  if (handle_ == nullptr) return;
  is_over_.store(true, std::memory_order_release);
  end_all(close(true, leave_limit));
}

void Worker::abort(const std::string& why, int culprit) noexcept {
  if (!context_->is_of_this_process()) return;
  const std::lock_guard lock(mutex_);
  if (handle_ == nullptr) return;
  try {
    culprit_ = culprit;
    why_ = why;
  } catch (...) {  // NOLINT(bugprone-empty-catch): without memory for the text the transfers still end
  }
  is_over_.store(true, std::memory_order_release);
  const Quiet quiet;
  // UCX 1.13 is not done with an endpoint that was closed in the middle of a transfer even when it says so.
  const bool is_idle = first_ == nullptr && std::ranges::all_of(peers_, [](const Peer& peer) { return peer.status == UCS_OK; });
  // UCX cancels receives alone. Sends end with their endpoints, and a receive whose message is half there ends with the worker.
  for (Transfer* one = first_; one != nullptr;) {
    Transfer* const next = one->after;
    if (one->kind != Transfer::Kind::send) library().ucp_request_cancel(handle_, one->request);
    one = next;
  }
  end_all(close(false, abort_limit) && is_idle);
}

Worker::~Worker() { abort(""); }

}  // namespace unisono::engines::ucx
