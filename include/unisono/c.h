#pragma once

// The C interface: what C++ has in core.h, as functions of C99. Everything that can call C can bind
// it (Rust, Julia, Fortran, Zig). This header brings all of it, and each part stands alone:
//
// - c/types.h: codes, dtypes, operations, handles, options
// - c/error.h: why a call failed
// - c/context.h: join a job and leave it
// - c/group.h: groups of processes
// - c/collectives.h: move and combine buffers
// - c/blocks.h: blocks whose length differs from rank to rank
// - c/messages.h: messages between two ranks
// - c/work.h: operations that are under way
//
// ```c
// #include <unisono/c.h>
//
// #include <stdio.h>
//
// int main(void) {
//   if (unisono_initialize(UNISONO_HEADER_VERSION, NULL) != UNISONO_OK) {
//     fprintf(stderr, "%s\n", unisono_error_message());
//     return 1;
//   }
//   float x[3] = {1, 2, 3};
//   if (unisono_all_reduce(x, 3, UNISONO_FLOAT32, UNISONO_SUM, unisono_world(), NULL) != UNISONO_OK) {
//     fprintf(stderr, "%s\n", unisono_error_message());
//     return 1;
//   }
//   return unisono_finalize() == UNISONO_OK ? 0 : 1;
// }
// ```
//
// The following rules hold for all functions.
//
// Codes. A function that can fail returns a unisono_status: UNISONO_OK, or the kind of the error. The
// calling thread then has its sentence (unisono_error_message) and its parts. A call that fails leaves
// what its out parameters point to as it was, unless its comment says otherwise; a handle that it was
// to write is NULL. No exception leaves a function.
//
// Handles. A unisono_group and a unisono_work are known by handles, which are no addresses. The one
// who was given a handle frees it. A handle that was freed is refused with UNISONO_INVALID_ARGUMENT,
// also by the function that frees it.
//
// Buffers. A buffer is the address of its first element, a number of elements and their dtype. The
// elements lie one behind the other. They are on the host, or on the device of the group's backend. A
// buffer of no elements may be NULL.
//
// Options. A pointer to a structure of options may be NULL. Its member `size` is set to the size of the
// structure; each other member may be 0, which stands for the default. By the size a program with other
// headers than the library's is understood, or gets a code. Nothing is kept of a structure when the
// function has returned.
//
// Ranks given to a call are ranks within its group. Text is UTF-8 and ends with 0.
//
// Order, threads and errors are those of the C++ interface (collectives.h), on which these functions
// stand: every rank of a group makes the same calls in the same order; a call that differs is
// UNISONO_MISMATCH on all of them; any thread may call, but two may not call on one group at once;
// UNISONO_TIMEOUT and UNISONO_PEER_FAILED end the group for good.
//
// Ranks in C, C++ and Python may be in one job and call together.

#include "unisono/c/blocks.h"
#include "unisono/c/collectives.h"
#include "unisono/c/context.h"
#include "unisono/c/error.h"
#include "unisono/c/group.h"
#include "unisono/c/messages.h"
#include "unisono/c/types.h"
#include "unisono/c/work.h"
