#pragma once

// The whole interface, except for the streams of CUDA devices (unisono/cuda.h) and the types of other
// libraries: LibTorch (unisono/torch.h), MPI (mpi.h), Eigen (eigen.h), Thrust (thrust.h), Kokkos
// (kokkos.h) and std::mdspan (mdspan.h). Each header also stands alone:
//
// - context.h, membership.h: join a job and leave it
// - process_group.h, grid.h: groups of processes
// - collectives.h, point_to_point.h, work.h: move and combine buffers and values
// - objects.h, any_value.h, parameters.h, results.h: the same for objects, models and results
// - launch.h, rank_control.h: start processes, and let one of them go first
// - controller.h, remote_future.h: drive all ranks from one program
// - elastic.h: go on without lost processes, and take new ones in
// - sampler.h, loader_plan.h: share out a data set
// - tensor.h, reduce_op.h, shared_memory.h: buffers, operations, memory
// - error.h: everything that is thrown
// - record.h: the last calls of this rank
// - store.h, etcd_store.h: the stores through which processes meet
// - engine.h: engines of one's own

#include "unisono/any_value.h"
#include "unisono/controller.h"
#include "unisono/core.h"
#include "unisono/elastic.h"
#include "unisono/engine.h"
#include "unisono/etcd_store.h"
#include "unisono/grid.h"
#include "unisono/launch.h"
#include "unisono/loader_plan.h"
#include "unisono/membership.h"
#include "unisono/objects.h"
#include "unisono/parameters.h"
#include "unisono/rank_control.h"
#include "unisono/remote_future.h"
#include "unisono/results.h"
#include "unisono/sampler.h"
#include "unisono/shared_memory.h"
#include "unisono/store.h"
