// Our declarations of NCCL's API against its own header, where that is found. The compiler compares; the function tells the test that it did.
#include "declarations.h"

#if __has_include(<nccl.h>) && __has_include(<cuda_runtime.h>)
#include <nccl.h>

#include "same_shape.h"

namespace ours = unisono::engines::nccl;

#define SAME_FUNCTION(member, name, result, parameters) \
  static_assert(declarations::same_shape<decltype(ours::NcclApi::member), decltype(&::name)>, #name " is declared otherwise");
UNISONO_NCCL_FUNCTIONS(SAME_FUNCTION)

#define SAME_VALUE(own, real) static_assert(static_cast<long long>(own) == static_cast<long long>(real), #real " has another value")
SAME_VALUE(ours::Result::success, ncclSuccess);
SAME_VALUE(ours::Result::unhandled_cuda_error, ncclUnhandledCudaError);
SAME_VALUE(ours::Result::system_error, ncclSystemError);
SAME_VALUE(ours::Result::internal_error, ncclInternalError);
SAME_VALUE(ours::Result::invalid_argument, ncclInvalidArgument);
SAME_VALUE(ours::Result::invalid_usage, ncclInvalidUsage);
SAME_VALUE(ours::Result::remote_error, ncclRemoteError);
SAME_VALUE(ours::Result::in_progress, ncclInProgress);
SAME_VALUE(ours::DataType::int8, ncclInt8);
SAME_VALUE(ours::DataType::uint8, ncclUint8);
SAME_VALUE(ours::DataType::int32, ncclInt32);
SAME_VALUE(ours::DataType::uint32, ncclUint32);
SAME_VALUE(ours::DataType::int64, ncclInt64);
SAME_VALUE(ours::DataType::uint64, ncclUint64);
SAME_VALUE(ours::DataType::float16, ncclFloat16);
SAME_VALUE(ours::DataType::float32, ncclFloat32);
SAME_VALUE(ours::DataType::float64, ncclFloat64);
SAME_VALUE(ours::DataType::bfloat16, ncclBfloat16);
SAME_VALUE(ours::RedOp::sum, ncclSum);
SAME_VALUE(ours::RedOp::prod, ncclProd);
SAME_VALUE(ours::RedOp::max, ncclMax);
SAME_VALUE(ours::RedOp::min, ncclMin);
SAME_VALUE(ours::RedOp::avg, ncclAvg);
SAME_VALUE(ours::ScalarResidence::device, ncclScalarDevice);
SAME_VALUE(ours::ScalarResidence::host_immediate, ncclScalarHostImmediate);
SAME_VALUE(sizeof(ours::UniqueId), NCCL_UNIQUE_ID_BYTES);
SAME_VALUE(ours::config_undefined, NCCL_CONFIG_UNDEF_INT);
SAME_VALUE(ours::config_magic, static_cast<unsigned>(NCCL_API_MAGIC));
SAME_VALUE(ours::oldest_version, NCCL_VERSION(2, 19, 0));
static_assert(std::is_same_v<ours::Comm, ncclComm_t> && std::is_same_v<ours::Stream, cudaStream_t>);

// A later version's Config begins with ours.
#define SAME_PLACE(own, real)                                                                                                           \
  static_assert(offsetof(ours::Config, own) == offsetof(ncclConfig_t, real) && sizeof(ours::Config::own) == sizeof(ncclConfig_t::real), \
                "ncclConfig_t has " #real " elsewhere")
SAME_PLACE(size, size);
SAME_PLACE(magic, magic);
SAME_PLACE(version, version);
SAME_PLACE(blocking, blocking);
SAME_PLACE(cga_cluster_size, cgaClusterSize);
SAME_PLACE(min_ctas, minCTAs);
SAME_PLACE(max_ctas, maxCTAs);
SAME_PLACE(net_name, netName);
SAME_PLACE(split_share, splitShare);
static_assert(sizeof(ours::Config) <= sizeof(ncclConfig_t) && alignof(ours::Config) == alignof(ncclConfig_t));

int declarations::nccl_compared() { return NCCL_VERSION_CODE; }
#else
int declarations::nccl_compared() { return 0; }
#endif
