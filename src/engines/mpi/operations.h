#pragma once

#include <mpi.h>

#include "unisono/reduce_op.h"
#include "unisono/tensor.h"

namespace unisono::engines::mpi {

/// Returns the datatype for elements. MPI has no 16-bit floats: these travel as integers of their size, and only our operations combine them.
MPI_Datatype type_of(DType dtype);

/// Returns the operation that combines elements, one of ours.
MPI_Op op_of(DType dtype, ReduceOp op);

}  // namespace unisono::engines::mpi
