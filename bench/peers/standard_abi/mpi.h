#pragma once

// The functions of MPI that the bench calls, by the application binary interface that the MPI standard has fixed since version 5.0: any library that
// is called libmpi_abi.so.1 has them. The header declares them, so that no MPI is needed to build the bench.

// NOLINTBEGIN: MPI's own names, types and macros
#include <cstdint>

extern "C" {

using MPI_Comm = struct MPI_ABI_Comm*;
using MPI_Datatype = struct MPI_ABI_Datatype*;
using MPI_Op = struct MPI_ABI_Op*;
using MPI_Request = struct MPI_ABI_Request*;
struct MPI_Status {
  int MPI_SOURCE, MPI_TAG, MPI_ERROR;
  int MPI_internal[5];
};

#define MPI_COMM_WORLD (reinterpret_cast<MPI_Comm>(0x101))
#define MPI_SUM (reinterpret_cast<MPI_Op>(0x21))
#define MPI_DATATYPE_NULL (reinterpret_cast<MPI_Datatype>(0x200))
#define MPI_FLOAT (reinterpret_cast<MPI_Datatype>(0x210))
#define MPI_DOUBLE (reinterpret_cast<MPI_Datatype>(0x214))
#define MPI_INT8_T (reinterpret_cast<MPI_Datatype>(0x240))
#define MPI_UINT8_T (reinterpret_cast<MPI_Datatype>(0x241))
#define MPI_CHAR (reinterpret_cast<MPI_Datatype>(0x243))
#define MPI_INT32_T (reinterpret_cast<MPI_Datatype>(0x250))
#define MPI_INT64_T (reinterpret_cast<MPI_Datatype>(0x258))
#define MPI_IN_PLACE (reinterpret_cast<void*>(1))
#define MPI_STATUS_IGNORE (static_cast<MPI_Status*>(nullptr))
#define MPI_STATUSES_IGNORE (static_cast<MPI_Status*>(nullptr))

enum { MPI_SUCCESS = 0 };
enum { MPI_THREAD_SINGLE = 0, MPI_THREAD_FUNNELED = 1024 };
enum { MPI_MAX_LIBRARY_VERSION_STRING = 8192 };

int MPI_Init_thread(int* argc, char*** argv, int required, int* provided);
int MPI_Finalize();
int MPI_Get_library_version(char* version, int* length);
int MPI_Comm_rank(MPI_Comm comm, int* rank);
int MPI_Comm_size(MPI_Comm comm, int* size);

int MPI_Send(const void* in, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm);
int MPI_Recv(void* out, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Status* status);
int MPI_Isend(const void* in, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request);
int MPI_Irecv(void* out, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request* request);
int MPI_Iprobe(int from, int tag, MPI_Comm comm, int* found, MPI_Status* status);
int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[]);
int MPI_Sendrecv(const void* in, int in_count, MPI_Datatype in_type, int to, int in_tag, void* out, int out_count, MPI_Datatype out_type, int from,
                 int out_tag, MPI_Comm comm, MPI_Status* status);

int MPI_Barrier(MPI_Comm comm);
int MPI_Allreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm);
int MPI_Bcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm comm);
int MPI_Reduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm);
int MPI_Scan(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm);
int MPI_Exscan(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm);
int MPI_Reduce_scatter_block(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm);
int MPI_Reduce_scatter(const void* in, void* out, const int counts[], MPI_Datatype type, MPI_Op op, MPI_Comm comm);
int MPI_Allgather(const void* in, int in_count, MPI_Datatype in_type, void* out, int out_count, MPI_Datatype out_type, MPI_Comm comm);
int MPI_Allgatherv(const void* in, int in_count, MPI_Datatype in_type, void* out, const int counts[], const int places[], MPI_Datatype out_type,
                   MPI_Comm comm);
int MPI_Gather(const void* in, int in_count, MPI_Datatype in_type, void* out, int out_count, MPI_Datatype out_type, int root, MPI_Comm comm);
int MPI_Gatherv(const void* in, int in_count, MPI_Datatype in_type, void* out, const int counts[], const int places[], MPI_Datatype out_type,
                int root, MPI_Comm comm);
int MPI_Scatter(const void* in, int in_count, MPI_Datatype in_type, void* out, int out_count, MPI_Datatype out_type, int root, MPI_Comm comm);
int MPI_Scatterv(const void* in, const int counts[], const int places[], MPI_Datatype in_type, void* out, int out_count, MPI_Datatype out_type,
                 int root, MPI_Comm comm);
int MPI_Alltoall(const void* in, int in_count, MPI_Datatype in_type, void* out, int out_count, MPI_Datatype out_type, MPI_Comm comm);
int MPI_Alltoallv(const void* in, const int in_counts[], const int in_places[], MPI_Datatype in_type, void* out, const int out_counts[],
                  const int out_places[], MPI_Datatype out_type, MPI_Comm comm);

}  // extern "C"
// NOLINTEND
