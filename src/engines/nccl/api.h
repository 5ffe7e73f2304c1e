#pragma once

#include <cstddef>
#include <cstdint>

// Declares the functions of NCCL, of the CUDA runtime and of the driver's management library (NVML) that we call, from their public documentation:
// the vendors' headers are needed neither to build nor to run. tests/nccl/declarations.h compares every line with the real headers where these
// are found. Names and values are the vendors'.

struct ncclComm;
struct CUstream_st;
struct CUevent_st;
struct nvmlDevice_st;

namespace unisono::engines::nccl {

using Comm = ncclComm*;
using Stream = CUstream_st*;
using Event = CUevent_st*;
using NvmlDevice = nvmlDevice_st*;

// Numbered from 0.
enum class Result : int { success, unhandled_cuda_error, system_error, internal_error, invalid_argument, invalid_usage, remote_error, in_progress };
enum class DataType : int { int8, uint8, int32, uint32, int64, uint64, float16, float32, float64, bfloat16 };

enum class RedOp : int { sum = 0, prod = 1, max = 2, min = 3, avg = 4 };
/// The memory of an operation's factor when the operation is made.
enum class ScalarResidence : int { device = 0, host_immediate = 1 };

struct UniqueId {
  char internal[128];
};

inline constexpr int config_undefined = -2147483647 - 1;
inline constexpr unsigned config_magic = 0xcafebeef;
/// The oldest version that can be used, in the form of ncclGetVersion. Config has its layout, which later versions only extend.
inline constexpr int oldest_version = 21900;
/// The oldest version whose ranks may share a device.
inline constexpr int oldest_of_shared_devices = 23000;

struct Config {
  std::size_t size = sizeof(Config);
  unsigned magic = config_magic;
  unsigned version = oldest_version;
  int blocking = config_undefined;
  int cga_cluster_size = config_undefined;
  int min_ctas = config_undefined;
  int max_ctas = config_undefined;
  const char* net_name = nullptr;
  int split_share = config_undefined;
};

enum class CudaError : int {
  success = 0,
  invalid_value = 1,
  memory_allocation = 2,
  initialization_error = 3,
  stub_library = 34,
  insufficient_driver = 35,
  no_device = 100,
  invalid_device = 101,
  not_ready = 600,
  illegal_address = 700,
  launch_failure = 719,
  stream_capture_implicit = 906,
};

enum class CaptureStatus : int { none = 0, active = 1, invalidated = 2 };

enum class MemoryType : int { unregistered = 0, host = 1, device = 2, managed = 3 };
enum class MemcpyKind : int { automatic = 4 };

/// The layout of the newest runtime; older ones write a part of it.
struct PointerAttributes {
  MemoryType type;
  int device;
  void* device_pointer;
  void* host_pointer;
  long reserved[8];
};

inline constexpr unsigned stream_non_blocking = 1;
inline constexpr unsigned event_disable_timing = 2;
inline constexpr unsigned host_register_portable = 1;

enum class NvmlResult : int { success = 0, insufficient_size = 7, driver_not_loaded = 9 };

/// The layout that nvmlDeviceGetComputeRunningProcesses_v2 and _v3 write.
struct NvmlProcess {
  unsigned pid;
  unsigned long long used_memory;
  unsigned gpu_instance, compute_instance;
};
/// NVML's value where the driver does not tell the memory of single processes.
inline constexpr unsigned long long nvml_not_available = ~0ULL;

// X(member, the vendor's name, result, parameters)
#define UNISONO_NCCL_FUNCTIONS(X)                                                                                 \
  X(get_version, ncclGetVersion, Result, (int*))                                                                  \
  X(get_unique_id, ncclGetUniqueId, Result, (UniqueId*))                                                          \
  X(comm_init_rank_config, ncclCommInitRankConfig, Result, (Comm*, int, UniqueId, int, Config*))                  \
  X(comm_finalize, ncclCommFinalize, Result, (Comm))                                                              \
  X(comm_destroy, ncclCommDestroy, Result, (Comm))                                                                \
  X(comm_abort, ncclCommAbort, Result, (Comm))                                                                    \
  X(comm_get_async_error, ncclCommGetAsyncError, Result, (Comm, Result*))                                         \
  X(get_error_string, ncclGetErrorString, const char*, (Result))                                                  \
  X(get_last_error, ncclGetLastError, const char*, (Comm))                                                        \
  X(all_reduce, ncclAllReduce, Result, (const void*, void*, std::size_t, DataType, RedOp, Comm, Stream))          \
  X(reduce, ncclReduce, Result, (const void*, void*, std::size_t, DataType, RedOp, int, Comm, Stream))            \
  X(broadcast, ncclBroadcast, Result, (const void*, void*, std::size_t, DataType, int, Comm, Stream))             \
  X(all_gather, ncclAllGather, Result, (const void*, void*, std::size_t, DataType, Comm, Stream))                 \
  X(reduce_scatter, ncclReduceScatter, Result, (const void*, void*, std::size_t, DataType, RedOp, Comm, Stream))  \
  X(red_op_create_premul_sum, ncclRedOpCreatePreMulSum, Result, (RedOp*, void*, DataType, ScalarResidence, Comm)) \
  X(red_op_destroy, ncclRedOpDestroy, Result, (RedOp, Comm))                                                      \
  X(send, ncclSend, Result, (const void*, std::size_t, DataType, int, Comm, Stream))                              \
  X(recv, ncclRecv, Result, (void*, std::size_t, DataType, int, Comm, Stream))                                    \
  X(group_start, ncclGroupStart, Result, ())                                                                      \
  X(group_end, ncclGroupEnd, Result, ())

#define UNISONO_CUDA_FUNCTIONS(X)                                                                                                                \
  X(runtime_get_version, cudaRuntimeGetVersion, CudaError, (int*))                                                                               \
  X(driver_get_version, cudaDriverGetVersion, CudaError, (int*))                                                                                 \
  X(get_device_count, cudaGetDeviceCount, CudaError, (int*))                                                                                     \
  X(get_device, cudaGetDevice, CudaError, (int*))                                                                                                \
  X(set_device, cudaSetDevice, CudaError, (int))                                                                                                 \
  X(get_error_name, cudaGetErrorName, const char*, (CudaError))                                                                                  \
  X(get_error_string, cudaGetErrorString, const char*, (CudaError))                                                                              \
  X(get_last_error, cudaGetLastError, CudaError, ())                                                                                             \
  X(stream_create, cudaStreamCreateWithFlags, CudaError, (Stream*, unsigned))                                                                    \
  X(stream_destroy, cudaStreamDestroy, CudaError, (Stream))                                                                                      \
  X(stream_wait_event, cudaStreamWaitEvent, CudaError, (Stream, Event, unsigned))                                                                \
  X(stream_is_capturing, cudaStreamIsCapturing, CudaError, (Stream, CaptureStatus*))                                                             \
  X(event_create, cudaEventCreateWithFlags, CudaError, (Event*, unsigned))                                                                       \
  X(event_destroy, cudaEventDestroy, CudaError, (Event))                                                                                         \
  X(event_record, cudaEventRecord, CudaError, (Event, Stream))                                                                                   \
  X(stream_query, cudaStreamQuery, CudaError, (Stream))                                                                                          \
  X(event_query, cudaEventQuery, CudaError, (Event))                                                                                             \
  X(memcpy_async, cudaMemcpyAsync, CudaError, (void*, const void*, std::size_t, MemcpyKind, Stream))                                             \
  X(memcpy_2d_async, cudaMemcpy2DAsync, CudaError, (void*, std::size_t, const void*, std::size_t, std::size_t, std::size_t, MemcpyKind, Stream)) \
  X(host_register, cudaHostRegister, CudaError, (void*, std::size_t, unsigned))                                                                  \
  X(host_unregister, cudaHostUnregister, CudaError, (void*))                                                                                     \
  X(malloc_async, cudaMallocAsync, CudaError, (void**, std::size_t, Stream))                                                                     \
  X(free_async, cudaFreeAsync, CudaError, (void*, Stream))                                                                                       \
  X(get_pci_bus_id, cudaDeviceGetPCIBusId, CudaError, (char*, int, int))                                                                         \
  X(mem_get_info, cudaMemGetInfo, CudaError, (std::size_t*, std::size_t*))                                                                       \
  X(pointer_get_attributes, cudaPointerGetAttributes, CudaError, (PointerAttributes*, const void*))

// All or none of these functions are used: the library may be missing, and only reported numbers depend on it.
#define UNISONO_NVML_FUNCTIONS(X)                                                         \
  X(init, nvmlInit_v2, NvmlResult, ())                                                    \
  X(shutdown, nvmlShutdown, NvmlResult, ())                                               \
  X(get_count, nvmlDeviceGetCount_v2, NvmlResult, (unsigned*))                            \
  X(get_device, nvmlDeviceGetHandleByPciBusId_v2, NvmlResult, (const char*, NvmlDevice*)) \
  X(get_processes, nvmlDeviceGetComputeRunningProcesses_v3, NvmlResult, (NvmlDevice, unsigned*, NvmlProcess*))

// NOLINTNEXTLINE(bugprone-macro-parentheses): a type and a list
#define UNISONO_DECLARE(member, name, result, parameters) result(*member) parameters = nullptr;
struct NcclApi {
  UNISONO_NCCL_FUNCTIONS(UNISONO_DECLARE)
};
struct CudaApi {
  UNISONO_CUDA_FUNCTIONS(UNISONO_DECLARE)
};
struct NvmlApi {
  UNISONO_NVML_FUNCTIONS(UNISONO_DECLARE)
};
#undef UNISONO_DECLARE

}  // namespace unisono::engines::nccl
