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

/// Between views of one dtype and number of elements, of which one is contiguous.
struct TensorCopy {
  TensorView to, from;
};

/// What a call does in this rank's own memory around its operation. Alive as long as the operation is.
class UNISONO_API PrologueEpilogue {
 public:
  virtual ~PrologueEpilogue();
  /// Its turn has come: what the operation reads may be read.
  virtual void prologue() = 0;
  /// It went well, and its output is complete.
  virtual void epilogue() = 0;
  /// Beside the operation itself, what the ranks must agree on.
  virtual std::string_view terms() const = 0;
  /// The device copies these in place of `before` and `after`, where the operation is on its memory.
  virtual std::vector<TensorCopy> prologue_copies() const { return {}; }
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
  std::optional<double> factor = {};  ///< of what this rank gives to a sum
  std::optional<Rank> root = {};
  Counts counts = {};
  Counts recv_counts = {};
  /// What the user called, where that is made of several requests: it is what errors name, and it is compared between the ranks. A string literal.
  std::string_view label = {};
  std::shared_ptr<PrologueEpilogue> edges = {};  ///< with a label, where it has terms
  /// With a label: several tensors of this rank, each on a device of its own, which were checked already; `in` and `out` are the first of them.
  std::shared_ptr<DeviceCall> lists = {};
  /// The same call on copies of such lists in the host's memory, for what is not carried out on the devices.
  std::function<std::shared_ptr<ListsOnHost>()> on_host = {};
};
struct ListsOnHost {
  Request request;
  std::vector<TensorCopy> before = {}, after = {};  ///< to the host, and from there
  std::vector<std::vector<std::byte>> memory = {};  ///< of the copies
};

inline std::string_view name_of(const Request& request) noexcept { return request.label.empty() ? to_string(request.operation) : request.label; }
UNISONO_API void run(const Request& request, const ProcessGroup& group, const CallOptions& options);
UNISONO_API Work start(const Request& request, const ProcessGroup& group, const CallOptions& options);
/// `run` on a group that several threads share: as soon as the call has its place among the group's, `issued` is called, and the others may call. Who
/// waits for it drives all that is under way, as with Work::wait.
UNISONO_API void run(const Request& request, const ProcessGroup& group, const CallOptions& options, const std::function<void()>& issued);

/// One side of a message; no peer: from anybody.
struct MessageRequest {
  Operation operation;
  TensorView data;
  std::optional<Rank> peer;
  std::string_view label = {};  ///< as of a Request
};
inline std::string_view name_of(const MessageRequest& request) noexcept {
  return request.label.empty() ? to_string(request.operation) : request.label;
}
/// The receive's message.
UNISONO_API MessageInfo run(const MessageRequest& request, const ProcessGroup& group, const CallOptions& options);
/// The message that the next receive would take. Null, where it does not wait: nothing is there. `data` does not count.
UNISONO_API std::optional<MessageInfo> probe(const MessageRequest& request, const ProcessGroup& group, const CallOptions& options, bool waits);
/// A receive of any length into memory that `resize` gives once the length is known. `now`: what there is, which stays as it is if the message does
/// not fit. The message's dtype must be that of `now`.
UNISONO_API MessageInfo recv_sized(const TensorView& now, std::optional<Rank> src, const std::function<TensorView(std::size_t count)>& resize,
                                   const ProcessGroup& group, const CallOptions& options);
UNISONO_API Work start(const MessageRequest& request, const ProcessGroup& group, const CallOptions& options);

inline TensorView nothing(DType dtype = DType::uint8) { return {nullptr, dtype, std::size_t{0}}; }

}  // namespace unisono::detail
