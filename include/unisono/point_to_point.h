#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "unisono/detail/refusals.h"
#include "unisono/detail/request.h"
#include "unisono/operation.h"
#include "unisono/process_group.h"
#include "unisono/tensor.h"
#include "unisono/work.h"

// Messages between two ranks of a group, matched by sender, receiver and tag (CallOptions), in the order they were sent. A message of up to
// 64 KiB leaves its sender without a matching receive. Another length or dtype than the receive's is Mismatch at the receiver; to or from
// oneself is InvalidArgument.

namespace unisono {

/// The source of a receive that takes from anybody.
struct AnySource {};
inline constexpr AnySource any_source{};

template <InBuffer In>
void send(const In& x, Rank dst, const ProcessGroup& group = detail::current_world(), const CallOptions& options = {}) {
  detail::run(detail::MessageRequest{Operation::send, detail::view_of(x), dst}, group, options);
}
template <InBuffer In>
[[nodiscard]] Work isend(const In& x, Rank dst, const ProcessGroup& group = detail::current_world(), const CallOptions& options = {}) {
  return detail::start(detail::MessageRequest{Operation::send, detail::view_of(x), dst}, group, options);
}

/// Returns the sender's rank in the group.
template <Buffer B>
int recv(B&& x, Rank src, const ProcessGroup& group = detail::current_world(), const CallOptions& options = {}) {
  return detail::run(detail::MessageRequest{Operation::recv, detail::writable_view_of(x), src}, group, options);
}
template <Buffer B>
int recv(B&& x, AnySource, const ProcessGroup& group = detail::current_world(), const CallOptions& options = {}) {
  return detail::run(detail::MessageRequest{Operation::recv, detail::writable_view_of(x), std::nullopt}, group, options);
}
template <Buffer B>
[[nodiscard]] Work irecv(B&& x, Rank src, const ProcessGroup& group = detail::current_world(), const CallOptions& options = {}) {
  return detail::start(detail::MessageRequest{Operation::recv, detail::writable_view_of(x), src}, group, options);
}
template <Buffer B>
[[nodiscard]] Work irecv(B&& x, AnySource, const ProcessGroup& group = detail::current_world(), const CallOptions& options = {}) {
  return detail::start(detail::MessageRequest{Operation::recv, detail::writable_view_of(x), std::nullopt}, group, options);
}

/// Both at once, so that two ranks can exchange messages of any size. Returns the sender.
template <InBuffer In, Buffer B>
int send_recv(const In& out, Rank dst, B&& in, Rank src, const ProcessGroup& group = detail::current_world(), const CallOptions& options = {}) {
  Work received = irecv(in, src, group, options);
  Work sent = isend(out, dst, group, options);
  sent.wait();
  received.wait();
  return received.source_rank();
}

/// One message of a batch. The memory it views belongs to the library until its Work is done.
class P2POp {
 public:
  template <InBuffer In>
  static P2POp send(const In& x, Rank dst) {
    return P2POp({Operation::send, detail::view_of(x), dst});
  }
  template <Buffer B>
  static P2POp recv(B&& x, Rank src) {
    return P2POp({Operation::recv, detail::writable_view_of(x), src});
  }
  template <Buffer B>
  static P2POp recv(B&& x, AnySource) {
    return P2POp({Operation::recv, detail::writable_view_of(x), std::nullopt});
  }
  const detail::MessageRequest& request() const { return request_; }

 private:
  explicit P2POp(detail::MessageRequest request) : request_(std::move(request)) {}
  detail::MessageRequest request_;
};

/// Issues all of them together; the i-th Work is of the i-th message. Nothing is issued if one of them is InvalidArgument.
[[nodiscard]] UNISONO_API std::vector<Work> batch(std::span<const P2POp> operations, const ProcessGroup& group = detail::current_world(),
                                                  const CallOptions& options = {});
/// batch({P2POp::send(x, 1), P2POp::recv(y, 1)})
[[nodiscard]] inline std::vector<Work> batch(std::initializer_list<P2POp> operations, const ProcessGroup& group = detail::current_world(),
                                             const CallOptions& options = {}) {
  return batch(std::span<const P2POp>(operations.begin(), operations.size()), group, options);
}

template <class X, class... Rest>
requires(!Buffer<X>) int recv(X&&, Rest&&...) {
  detail::refuse_as_buffer<X>();
  return -1;
}
template <class X, class... Rest>
requires(!InBuffer<X>) void send(X&&, Rest&&...) { detail::refuse_as_buffer<X>(); }

// A tag, an optional group or the options in place of the group.

template <InBuffer In, class G, class... Rest>
requires detail::no_group<G>
void send(const In&, Rank, G&&, Rest&&...) { detail::refuse_as_group<G>(); }
template <InBuffer In, class G, class... Rest>
requires detail::no_group<G>
void isend(const In&, Rank, G&&, Rest&&...) { detail::refuse_as_group<G>(); }
template <Buffer B, class G, class... Rest>
requires detail::no_group<G>
void recv(B&&, Rank, G&&, Rest&&...) { detail::refuse_as_group<G>(); }
template <Buffer B, class G, class... Rest>
requires detail::no_group<G>
void recv(B&&, AnySource, G&&, Rest&&...) { detail::refuse_as_group<G>(); }
template <Buffer B, class G, class... Rest>
requires detail::no_group<G>
void irecv(B&&, Rank, G&&, Rest&&...) { detail::refuse_as_group<G>(); }
template <Buffer B, class G, class... Rest>
requires detail::no_group<G>
void irecv(B&&, AnySource, G&&, Rest&&...) { detail::refuse_as_group<G>(); }
template <InBuffer In, Buffer B, class G, class... Rest>
requires detail::no_group<G>
void send_recv(const In&, Rank, B&&, Rank, G&&, Rest&&...) { detail::refuse_as_group<G>(); }

}  // namespace unisono
