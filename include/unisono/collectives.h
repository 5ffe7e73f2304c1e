#pragma once

#include "unisono/collectives/barrier.h"
#include "unisono/collectives/data_movement.h"
#include "unisono/collectives/reductions.h"
#include "unisono/collectives_lists.h"
#include "unisono/collectives_v.h"
#include "unisono/multigpu.h"
#include "unisono/with_place.h"

// All collectives on buffers and values. Each header that this one includes also stands alone:
//
// - collectives/reductions.h: all_reduce, reduce, reduce_scatter, scan, exscan, mean
// - collectives/data_movement.h: broadcast, all_gather, gather, scatter, all_to_all
// - collectives/barrier.h: barrier, monitored_barrier, synchronize
// - collectives_v.h: blocks whose length differs from rank to rank
// - collectives_lists.h: one buffer for each rank in place of one long buffer
// - multigpu.h: several tensors of each rank
// - with_place.h: the smallest or largest value and the rank or index where it is
//
// A program of two ranks or a hundred:
//
// ```cpp
// #include <unisono/core.h>
//
// int main() {
//   unisono::Context context;                               // joins the job, leaves it at the end
//   std::vector<float> x(1000, float(unisono::rank()));
//   unisono::all_reduce(x);                                 // in place: the sum over all ranks
//   const int n = unisono::all_reduce(1);                   // a value: the number of ranks
// }
// ```
//
// The following rules hold for all of them.
//
// Arguments. A buffer is a contiguous range of elements, a TensorView, or a type with buffer_traits
// (tensor.h). A buffer is worked on in place; a value, which is one element, is passed by value and
// the result is returned. Forms with two buffers read the first and write the second. An object
// (a string, a map, a struct) goes to the collectives of objects.h.
//
// Order. A collective is called by every rank of its group, which is the last but one argument and
// the world by default. All ranks make the same calls on a group in the same order. The group
// compares every call: another operation, dtype, length, root, tag or reduce operation on some rank
// is Mismatch on all ranks. Nothing has been moved then, and the group stays usable.
//
// Asynchronous calls. NAME_async has the arguments of NAME, returns a Work, and does not wait. The
// buffers belong to the library until the Work is done: nobody may read what is written, or write
// what is read. Operations of one group are carried out in the order of the calls, blocking ones
// included.
//
// Threads. Any thread may call. Two threads that call on one group at once get InvalidArgument;
// calls on different groups run side by side.
//
// Memory. Strided views are packed and unpacked by the library. Backend nccl works on the memory of
// its device; other backends take such memory through copies on the host. Input and output of one
// call lie both on the host or both on the device.
//
// Errors. A call that is wrong by itself (a root outside the group, buffers whose lengths do not
// fit) throws InvalidArgument on that rank before anything is sent. Timeout and PeerFailed end the
// group for good; shrink_group makes a new one of the survivors. NotInitialized means that the
// process was launched as one of several and has not called initialize. error.h has them all.
