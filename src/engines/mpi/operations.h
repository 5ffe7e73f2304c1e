#pragma once

#include <mpi.h>

#include "unisono/reduce_op.h"
#include "unisono/tensor.h"

namespace unisono::engines::mpi {

/// The datatype that elements travel as. MPI has no 16-bit floats: these travel as integers of their size, and only ops of ours combine them.
MPI_Datatype type_of(DType dtype);

/// The operation that combines them: MPI's own where it computes the same bits whatever the order of its operands (integers), else one of ours.
MPI_Op op_of(DType dtype, ReduceOp op);

/// data[i] /= n, rounded once; of floats and complex numbers.
void divide(DType dtype, void* data, std::size_t count, int n);

}  // namespace unisono::engines::mpi
