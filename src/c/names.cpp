#include <iterator>
#include <string_view>

#include "unisono/c/error.h"
#include "unisono/c/types.h"
#include "unisono/error.h"
#include "unisono/message_info.h"
#include "unisono/reduce_op.h"
#include "unisono/tensor.h"

namespace unisono::c {
namespace {

// The constants of C have the values of the enumerators of C++, so that nothing is translated.
template <class E>
constexpr bool is(int constant, E enumerator) {
  return constant == static_cast<int>(enumerator);
}
static_assert(is(UNISONO_BOOLEAN, DType::boolean) && is(UNISONO_INT8, DType::int8) && is(UNISONO_INT16, DType::int16) &&
              is(UNISONO_INT32, DType::int32) && is(UNISONO_INT64, DType::int64) && is(UNISONO_UINT8, DType::uint8) &&
              is(UNISONO_UINT16, DType::uint16) && is(UNISONO_UINT32, DType::uint32) && is(UNISONO_UINT64, DType::uint64) &&
              is(UNISONO_FLOAT16, DType::float16) && is(UNISONO_BFLOAT16, DType::bfloat16) && is(UNISONO_FLOAT32, DType::float32) &&
              is(UNISONO_FLOAT64, DType::float64) && is(UNISONO_COMPLEX64, DType::complex64) && is(UNISONO_COMPLEX128, DType::complex128));
static_assert(size_of(DType{UNISONO_COMPLEX128 + 1}) == 0, "a new dtype has a constant in unisono/c/types.h");
static_assert(is(UNISONO_SUM, ReduceOp::sum) && is(UNISONO_PRODUCT, ReduceOp::product) && is(UNISONO_MIN, ReduceOp::min) &&
              is(UNISONO_MAX, ReduceOp::max) && is(UNISONO_AVG, ReduceOp::avg) && is(UNISONO_BAND, ReduceOp::band) &&
              is(UNISONO_BOR, ReduceOp::bor) && is(UNISONO_BXOR, ReduceOp::bxor) && is(UNISONO_LAND, ReduceOp::land) &&
              is(UNISONO_LOR, ReduceOp::lor));
static_assert(is(UNISONO_ANY_TAG, any_tag));

// The texts of C++ are literals, so that each ends with 0.
constexpr const char* unknown = "unknown";

constexpr const char* statuses[] = {
    "UNISONO_OK",          "UNISONO_ERROR",          "UNISONO_INVALID_ARGUMENT",    "UNISONO_NOT_INITIALIZED", "UNISONO_ALREADY_INITIALIZED",
    "UNISONO_NOT_MEMBER",  "UNISONO_UNSUPPORTED",    "UNISONO_BACKEND_UNAVAILABLE", "UNISONO_MISMATCH",        "UNISONO_TIMEOUT",
    "UNISONO_PEER_FAILED", "UNISONO_PROTOCOL_ERROR", "UNISONO_OUT_OF_MEMORY",       "UNISONO_WRONG_VERSION"};
static_assert(std::size(statuses) == UNISONO_WRONG_VERSION + 1);

}  // namespace
}  // namespace unisono::c

const char* unisono_status_name(unisono_status status) {
  return status < 0 || status >= static_cast<int>(std::size(unisono::c::statuses)) ? unisono::c::unknown : unisono::c::statuses[status];
}
const char* unisono_dtype_name(unisono_dtype dtype) { return unisono::to_string(static_cast<unisono::DType>(dtype)).data(); }
const char* unisono_reduce_op_name(unisono_reduce_op op) { return unisono::to_string(static_cast<unisono::ReduceOp>(op)).data(); }
size_t unisono_dtype_size(unisono_dtype dtype) { return unisono::size_of(static_cast<unisono::DType>(dtype)); }

const char* unisono_cause_name(unisono_cause cause) {
  using Cause = unisono::PeerFailed::Cause;
  switch (cause) {
    case UNISONO_CAUSE_NONE: return unisono::c::unknown;
    case UNISONO_CAUSE_EXITED: return unisono::to_string(Cause::exited).data();
    case UNISONO_CAUSE_KILLED: return unisono::to_string(Cause::killed).data();
    case UNISONO_CAUSE_SILENT: return unisono::to_string(Cause::silent).data();
    case UNISONO_CAUSE_ABORTED: return unisono::to_string(Cause::aborted).data();
    case UNISONO_CAUSE_DISCONNECTED: return unisono::to_string(Cause::disconnected).data();
  }
  return unisono::c::unknown;
}
