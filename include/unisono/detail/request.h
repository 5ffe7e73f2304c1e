#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "unisono/counts.h"
#include "unisono/detail/standard.h"
#include "unisono/export.h"
#include "unisono/message_info.h"
#include "unisono/operation.h"
#include "unisono/process_group.h"
#include "unisono/reduce_op.h"
#include "unisono/tensor.h"
#include "unisono/work.h"

namespace unisono {
struct DeviceCall;
}

namespace unisono::detail {

/// A copy between two views of one dtype and number of elements, of which at least one is
/// contiguous.
struct TensorCopy {
  TensorView to, from;
};

/// The steps of a call in this rank's own memory, before and after its operation. It lives as long
/// as the operation.
class UNISONO_API PrologueEpilogue {
 public:
  virtual ~PrologueEpilogue();
  /// Is called when the operation's turn has come: what it reads may be read.
  virtual void prologue() = 0;
  /// Is called when the operation went well and its output is complete.
  virtual void epilogue() = 0;
  /// Returns what the ranks must agree on beside the operation itself.
  virtual std::string_view terms() const = 0;
  /// Returns the copies that the device makes in place of `prologue`, if the operation is on its
  /// memory.
  virtual std::vector<TensorCopy> prologue_copies() const { return {}; }
  /// Returns the copies that the device makes in place of `epilogue`.
  virtual std::vector<TensorCopy> epilogue_copies() const { return {}; }
};

struct ListsOnHost;

/// A collective as the typed edge hands it on: nothing is checked yet.
struct Request {
  Operation operation;
  TensorView in;
  TensorView out;
  ReduceOp op = ReduceOp::sum;
  std::shared_ptr<const CustomReduction> custom = {};
  /// The factor of what this rank gives to a sum.
  std::optional<double> factor = {};
  std::optional<Rank> root = {};
  Counts counts = {};
  Counts recv_counts = {};
  /// The function that the user called, if it is made of several requests. Errors name it, and the
  /// ranks compare it. A string literal.
  std::string_view label = {};
  /// The steps around the operation; with a label, if they have terms.
  std::shared_ptr<PrologueEpilogue> edges = {};
  /// With a label: several tensors of this rank, each on a device of its own, which were checked
  /// already. `in` and `out` are the first of them.
  std::shared_ptr<DeviceCall> lists = {};
  /// Makes the same call on copies of such lists in the host's memory, for operations that the devices
  /// do not have.
  std::function<std::shared_ptr<ListsOnHost>()> on_host = {};
};

/// A call on copies of lists in the host's memory.
struct ListsOnHost {
  Request request;
  std::vector<TensorCopy> before = {}, after = {};  ///< to the host, and from there
  std::vector<std::vector<std::byte>> memory = {};  ///< of the copies
};

/// Returns the name of the function that the user called.
inline std::string_view name_of(const Request& request) noexcept { return request.label.empty() ? to_string(request.operation) : request.label; }

/// Carries out a call and returns when it is done.
UNISONO_API void run(const Request& request, const ProcessGroup& group, const CallOptions& options);

/// Starts a call and returns at once.
UNISONO_API Work start(const Request& request, const ProcessGroup& group, const CallOptions& options);

/// Carries out a call on a group that several threads share.
///
/// `issued` is called as soon as the call has its place among the group's; from then on the other
/// threads may call. The waiting thread drives everything that is under way, as Work::wait does.
UNISONO_API void run(const Request& request, const ProcessGroup& group, const CallOptions& options, const std::function<void()>& issued);

/// A send or a receive; without a peer, a receive from any rank.
struct MessageRequest {
  Operation operation;
  TensorView data;
  std::optional<Rank> peer;
  /// The function that the user called, as in a Request.
  std::string_view label = {};
};

/// Returns the name of the function that the user called.
inline std::string_view name_of(const MessageRequest& request) noexcept {
  return request.label.empty() ? to_string(request.operation) : request.label;
}

/// Carries out a send or a receive, and returns the message of a receive.
UNISONO_API MessageInfo run(const MessageRequest& request, const ProcessGroup& group, const CallOptions& options);

/// Sends and receives at the same time, and returns the rank whose message was received. `out` is a
/// request of a send, `in` one of a receive.
UNISONO_API int send_recv(const MessageRequest& out, const MessageRequest& in, const ProcessGroup& group, const CallOptions& options);

/// Returns the message that the next receive would take. If `waits` is false it does not wait, and
/// returns std::nullopt if there is none. `data` is ignored.
UNISONO_API std::optional<MessageInfo> probe(const MessageRequest& request, const ProcessGroup& group, const CallOptions& options, bool waits);

/// Receives a message of any length into memory that `resize` gives once the length is known.
///
/// `now` is the memory that there is, which keeps its elements if the message does not fit. The
/// message has the dtype of `now`.
UNISONO_API MessageInfo recv_sized(const TensorView& now, std::optional<Rank> src, const std::function<TensorView(std::size_t count)>& resize,
                                   const ProcessGroup& group, const CallOptions& options);

/// Starts a send or a receive and returns at once.
UNISONO_API Work start(const MessageRequest& request, const ProcessGroup& group, const CallOptions& options);

/// Returns a view of no elements.
inline TensorView nothing(DType dtype = DType::uint8) { return {nullptr, dtype, std::size_t{0}}; }

}  // namespace unisono::detail
