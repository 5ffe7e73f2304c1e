// Our declarations of the CUDA runtime, compared with its own.
#include "declarations.h"

#if __has_include(<cuda_runtime_api.h>)
#include <cuda_runtime_api.h>

#include "same_shape.h"

namespace ours = unisono::engines::nccl;

#define SAME_FUNCTION(member, name, result, parameters) \
  static_assert(declarations::same_shape<decltype(ours::CudaApi::member), decltype(&::name)>, #name " is declared otherwise");
UNISONO_CUDA_FUNCTIONS(SAME_FUNCTION)

#define SAME_VALUE(own, real) static_assert(static_cast<long long>(own) == static_cast<long long>(real), #real " has another value")
SAME_VALUE(ours::CudaError::success, cudaSuccess);
SAME_VALUE(ours::CudaError::invalid_value, cudaErrorInvalidValue);
SAME_VALUE(ours::CudaError::memory_allocation, cudaErrorMemoryAllocation);
SAME_VALUE(ours::CudaError::initialization_error, cudaErrorInitializationError);
SAME_VALUE(ours::CudaError::stub_library, cudaErrorStubLibrary);
SAME_VALUE(ours::CudaError::insufficient_driver, cudaErrorInsufficientDriver);
SAME_VALUE(ours::CudaError::no_device, cudaErrorNoDevice);
SAME_VALUE(ours::CudaError::invalid_device, cudaErrorInvalidDevice);
SAME_VALUE(ours::CudaError::not_ready, cudaErrorNotReady);
SAME_VALUE(ours::CudaError::illegal_address, cudaErrorIllegalAddress);
SAME_VALUE(ours::CudaError::stream_capture_implicit, cudaErrorStreamCaptureImplicit);
SAME_VALUE(ours::CaptureStatus::none, cudaStreamCaptureStatusNone);
SAME_VALUE(ours::CaptureStatus::active, cudaStreamCaptureStatusActive);
SAME_VALUE(ours::CaptureStatus::invalidated, cudaStreamCaptureStatusInvalidated);
SAME_VALUE(ours::CudaError::launch_failure, cudaErrorLaunchFailure);
SAME_VALUE(ours::MemoryType::unregistered, cudaMemoryTypeUnregistered);
SAME_VALUE(ours::MemoryType::host, cudaMemoryTypeHost);
SAME_VALUE(ours::MemoryType::device, cudaMemoryTypeDevice);
SAME_VALUE(ours::MemoryType::managed, cudaMemoryTypeManaged);
SAME_VALUE(ours::MemcpyKind::automatic, cudaMemcpyDefault);
SAME_VALUE(ours::stream_non_blocking, cudaStreamNonBlocking);
SAME_VALUE(ours::event_disable_timing, cudaEventDisableTiming);
SAME_VALUE(ours::host_register_portable, cudaHostRegisterPortable);
static_assert(std::is_same_v<ours::Stream, cudaStream_t> && std::is_same_v<ours::Event, cudaEvent_t>);

// The runtime writes no more than we have room for.
#define SAME_PLACE(own, real)                                                                      \
  static_assert(offsetof(ours::PointerAttributes, own) == offsetof(cudaPointerAttributes, real) && \
                    sizeof(ours::PointerAttributes::own) == sizeof(cudaPointerAttributes::real),   \
                "cudaPointerAttributes has " #real " elsewhere")
SAME_PLACE(type, type);
SAME_PLACE(device, device);
SAME_PLACE(device_pointer, devicePointer);
SAME_PLACE(host_pointer, hostPointer);
static_assert(sizeof(ours::PointerAttributes) >= sizeof(cudaPointerAttributes));

int declarations::cuda_compared() { return CUDART_VERSION; }
#else
int declarations::cuda_compared() { return 0; }
#endif
