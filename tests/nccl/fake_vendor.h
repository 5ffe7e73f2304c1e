#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engines/nccl/loader.h"

// A stand-in for NCCL, the CUDA runtime and NVML behind the vendor seam: devices are host memory, streams are queues that run when somebody asks for
// an event, communicators connect threads. In a child of a process that has called the runtime it does not work, as the real one. Any function may be
// told to answer otherwise. What a program must not do with the real ones is noted.
namespace fake {

using unisono::engines::nccl::CudaError;
using unisono::engines::nccl::Result;
using unisono::engines::nccl::Vendor;

/// Everything as at the start; `devices` are there, and of every call it is forgotten what it was told to answer.
void reset(int devices);
std::shared_ptr<const Vendor> vendor();

/// Device memory, all zero; gone with the next reset.
void* allocate(int device, std::size_t bytes);
/// Bytes of each device's memory that other processes have: the driver's management library tells them from this process's.
void others(std::size_t bytes);

/// The calls in which a function is told to answer otherwise: those of one rank (of NCCL: the communicator's; of CUDA: the thread's device) or of any
/// (-1), after `skip` of them.
struct Where {
  int rank = -1;
  int skip = 0;
};
void answer(const std::string& function, Result result, Where where = {});
void answer(const std::string& function, CudaError error, Where where = {});
/// It answers that it is in progress, for so many questions (-1: for ever), and then that this has come of it.
void in_progress(const std::string& function, int questions, Result outcome = Result::success, Where where = {});
/// The next call of the function, by whichever rank, calls `f` first.
void during(const std::string& function, std::function<void()> f);
/// From now on the communicators of that rank have failed in the background, and what they have on streams stays there.
void break_communicators(int rank, Result result);
/// While it is stalled no device does anything.
void stall(bool stalled);
/// While it is stalled the device does nothing.
void stall_device(int device, bool stalled);

/// What is put on the stream is captured into a graph, from now on or no longer.
void capture(void* stream, bool captured);

/// The first misuse; "" if there was none.
std::string misuse();
/// The bytes that were copied between a device and memory of the host which the system may move: such a copy keeps its caller, and is slow.
std::size_t pageable_bytes();
/// Communicators, streams, events, memory of streams and pinned memory that nobody has let go of.
int leftovers();
/// The number of calls of a function.
int calls(const std::string& function);
/// The device that the calling thread has made current.
int current_device();

}  // namespace fake
