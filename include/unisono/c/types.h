#pragma once

#include <stddef.h>
#include <stdint.h>

#include "unisono/version.h"

/// Marks what the shared library exports.
#define UNISONO_C_API __attribute__((visibility("default")))

// C++ reads any number in these enumerations, since a program in C may pass any: the functions refuse
// what is none of the constants.
#ifdef __cplusplus
#define UNISONO_C_INT : int
extern "C" {
#else
#define UNISONO_C_INT
#endif

/// The outcome of a call. The values never change.
typedef enum unisono_status UNISONO_C_INT {
  /// It went well.
  UNISONO_OK = 0,
  /// It failed in a way that has no other code; the sentence says how.
  UNISONO_ERROR = 1,
  /// The call is wrong by itself. Nothing was sent, and the group stays usable.
  UNISONO_INVALID_ARGUMENT = 2,
  /// The process was launched as one of several and has not called unisono_initialize, or it was
  /// forked from one that had.
  UNISONO_NOT_INITIALIZED = 3,
  /// unisono_initialize was called a second time.
  UNISONO_ALREADY_INITIALIZED = 4,
  /// The calling process does not belong to the group.
  UNISONO_NOT_MEMBER = 5,
  /// The backend cannot do this; another may.
  UNISONO_UNSUPPORTED = 6,
  /// The backend that was asked for cannot run here.
  UNISONO_BACKEND_UNAVAILABLE = 7,
  /// The ranks called different things. All of them get this; nothing was moved, and the group stays
  /// usable.
  UNISONO_MISMATCH = 8,
  /// A deadline passed. The group is over. unisono_error_missing has the ranks that did not come.
  UNISONO_TIMEOUT = 9,
  /// A peer is gone or gave up. The group is over. unisono_error_culprit has its rank.
  UNISONO_PEER_FAILED = 10,
  /// The bytes on a connection are not those of this library and version.
  UNISONO_PROTOCOL_ERROR = 11,
  /// There is too little memory.
  UNISONO_OUT_OF_MEMORY = 12,
  /// The program was compiled with the headers of a version that the library does not serve.
  UNISONO_WRONG_VERSION = 13
} unisono_status;

/// The type of the elements of a buffer. Nothing is converted. The values never change.
typedef enum unisono_dtype UNISONO_C_INT {
  /// An element is one byte, 0 or 1, as _Bool is.
  UNISONO_BOOLEAN = 0,
  UNISONO_INT8 = 1,
  UNISONO_INT16 = 2,
  UNISONO_INT32 = 3,
  UNISONO_INT64 = 4,
  UNISONO_UINT8 = 5,
  UNISONO_UINT16 = 6,
  UNISONO_UINT32 = 7,
  UNISONO_UINT64 = 8,
  /// IEEE binary16, two bytes.
  UNISONO_FLOAT16 = 9,
  /// The upper half of a float, two bytes.
  UNISONO_BFLOAT16 = 10,
  UNISONO_FLOAT32 = 11,
  UNISONO_FLOAT64 = 12,
  /// Two float: the real and the imaginary part, as float _Complex.
  UNISONO_COMPLEX64 = 13,
  /// Two double, as double _Complex.
  UNISONO_COMPLEX128 = 14
} unisono_dtype;

/// The way in which the elements of the ranks are combined. The values never change.
///
/// | operation | dtypes |
/// |---|---|
/// | sum, product | every dtype; integers wrap; on boolean they are or, and |
/// | avg | every dtype except boolean; on integers the exact sum divided by the group's size, truncated toward zero |
/// | min, max | every dtype except the complex ones; a NaN on any rank gives a NaN; -0 < +0 |
/// | band, bor, bxor | integers and boolean |
/// | land, lor | every dtype except the complex ones: a value other than zero is true, the result is 0 or 1 |
///
/// Any other pair is UNISONO_INVALID_ARGUMENT. The two types of 16 bits are accumulated in float and
/// rounded once.
typedef enum unisono_reduce_op UNISONO_C_INT {
  UNISONO_SUM = 0,
  UNISONO_PRODUCT = 1,
  UNISONO_MIN = 2,
  UNISONO_MAX = 3,
  UNISONO_AVG = 4,
  UNISONO_BAND = 5,
  UNISONO_BOR = 6,
  UNISONO_BXOR = 7,
  UNISONO_LAND = 8,
  UNISONO_LOR = 9
} unisono_reduce_op;

enum {
  /// The version of these headers, for unisono_initialize: 1000000 * major + 1000 * minor + patch.
  UNISONO_HEADER_VERSION = 1000000 * UNISONO_VERSION_MAJOR + 1000 * UNISONO_VERSION_MINOR + UNISONO_VERSION_PATCH,
  /// In place of the sender's rank: a receive or a probe takes the next message of any rank.
  UNISONO_ANY_SOURCE = -1,
  /// In place of a message's tag: a receive or a probe takes the next message, whatever its tag.
  UNISONO_ANY_TAG = 0x7fffffff
};

/// A set of processes that call together. A handle belongs to the process, and any of its threads may
/// use it.
typedef struct unisono_group unisono_group;

/// An operation that may still be under way.
typedef struct unisono_work unisono_work;

/// The options of a single call.
typedef struct unisono_call_options {
  /// sizeof(unisono_call_options).
  size_t size;
  /// The deadline of the call in milliseconds, counted from its beginning; 0: the group's. INT64_MAX
  /// never passes.
  int64_t timeout_ms;
  /// Messages are matched by their tags. The ranks of a collective agree on it. Numbers below
  /// -2130706432 are the library's own.
  int32_t tag;
  /// Not 0: the elements of a reduction are combined from rank 0 to the last, so that the result has
  /// the same bits in every job of that many ranks. The ranks agree on it.
  int32_t deterministic;
  /// The place of the call in the program's sources, which errors then name: __FILE__ and __LINE__.
  const char* file;
  uint64_t line;
} unisono_call_options;

/// The options of a new group.
typedef struct unisono_group_options {
  /// sizeof(unisono_group_options).
  size_t size;
  /// The backend of this group, as in unisono_init_options; NULL: the world's. All members give the
  /// same.
  const char* backend;
  /// The deadline of forming the group, and of its calls, in milliseconds; 0: the world's.
  int64_t timeout_ms;
  /// The place of the call, as in unisono_call_options.
  const char* file;
  uint64_t line;
} unisono_group_options;

/// The way in which a process joins its job. A member that is left at 0 comes from the environment of
/// the launcher (`unisono run`, torchrun, mpirun, srun).
typedef struct unisono_init_options {
  /// sizeof(unisono_init_options).
  size_t size;
  /// The engine that carries the calls: "auto", "serial", "native", "tcp", "gloo", "mpi", "ucx",
  /// "nccl", or a map such as "cpu:native,cuda:nccl".
  const char* backend;
  /// The place where the processes meet: "env://", "tcp://host:port", "file:///path", or
  /// "etcd://host:port/prefix".
  const char* init_method;
  /// A name that lets several jobs share a file or a multicast address.
  const char* group_name;
  /// The deadline of every call that sets none, in milliseconds; 0: 30 minutes, or UNISONO_TIMEOUT of
  /// the environment.
  int64_t timeout_ms;
  /// The numbers of this process, if no launcher tells them. NULL: they are not given.
  const int32_t* rank;
  const int32_t* world_size;
  const int32_t* local_rank;
} unisono_init_options;

/// A message as it is known before, or after, it has been received.
typedef struct unisono_message_info {
  /// sizeof(unisono_message_info), which the program sets; the function fills in the rest.
  size_t size;
  /// The sender's rank in the group.
  int32_t source;
  /// The tag that the sender gave.
  int32_t tag;
  /// The type of its elements.
  unisono_dtype dtype;
  /// 1 for an object of C++ or Python, which C does not receive; `count` is 0 then.
  int32_t is_object;
  /// The number of its elements.
  uint64_t count;
} unisono_message_info;

/// Returns the name of the constant: "UNISONO_PEER_FAILED"; "unknown" for any other number. The text
/// lasts as long as the process, as those of the next two functions.
UNISONO_C_API const char* unisono_status_name(unisono_status status);
/// Returns the name of the dtype: "float32"; "unknown" for any other number.
UNISONO_C_API const char* unisono_dtype_name(unisono_dtype dtype);
/// Returns the name of the operation: "sum"; "unknown" for any other number.
UNISONO_C_API const char* unisono_reduce_op_name(unisono_reduce_op op);
/// Returns the bytes that one element takes; 0 for a number that is not a dtype.
UNISONO_C_API size_t unisono_dtype_size(unisono_dtype dtype);

#ifdef __cplusplus
}
#endif
