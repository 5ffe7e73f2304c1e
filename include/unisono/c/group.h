#pragma once

#include "unisono/c/types.h"

// Groups of processes.
//
// A function that forms a group writes a handle, which its caller frees; the group ends with its last
// handle. A process that is not a member gets NULL and UNISONO_OK. NULL is no group: calls on it are
// UNISONO_INVALID_ARGUMENT.

#ifdef __cplusplus
extern "C" {
#endif

/// Returns the handle of the group of all processes of the job. It is the same for the whole life of the
/// process, need not be freed, and cannot be. Never fails; a call on it does before
/// unisono_initialize, in a process that was launched.
UNISONO_C_API unisono_group* unisono_world(void);

/// Forms a group of some processes of the world, whose ranks are in the order given.
///
/// Only the members have to call, each with the same list; any other process gets NULL at once. The
/// call waits for all members. Several groups with the same list are formed in the same order by all
/// their members.
///
/// @param global_ranks `count` ranks in the world, each at most once
/// @param options may be NULL
UNISONO_C_API unisono_status unisono_new_group(const int32_t* global_ranks, size_t count, const unisono_group_options* options,
                                               unisono_group** group);

/// Splits a group into groups of one color each, as MPI_Comm_split does. Collective over the parent.
///
/// The members of a color are ordered by `key`, then by their rank in the parent. A rank with a negative
/// color belongs to none and gets NULL.
UNISONO_C_API unisono_status unisono_split_group(unisono_group* parent, int32_t color, int32_t key, const unisono_group_options* options,
                                                 unisono_group** group);

/// Writes a handle of the group of the processes of this host, in the order of the world. The first call
/// is collective over them; later calls give further handles of the same group.
UNISONO_C_API unisono_status unisono_local_group(unisono_group** group);

/// Forms a group of the surviving members of a group that has failed. All survivors call; the old order
/// is kept. The failed group stays to be freed.
///
/// A member that does not call within the group's timeout, and 30 s at most, is left out; if it calls
/// later it gets NULL. UNISONO_INVALID_ARGUMENT: the group is sound.
UNISONO_C_API unisono_status unisono_shrink_group(unisono_group* group, unisono_group** survivors);

/// Frees a handle. Operations of the group that are under way go on.
UNISONO_C_API unisono_status unisono_group_free(unisono_group* group);

/// Writes the rank of this process within the group, from 0 to the group's size - 1.
UNISONO_C_API unisono_status unisono_group_rank(unisono_group* group, int32_t* rank);

/// Writes the number of members.
UNISONO_C_API unisono_status unisono_group_size(unisono_group* group, int32_t* size);

/// Writes the rank within the world of the member with rank `rank` in the group.
UNISONO_C_API unisono_status unisono_group_global_rank(unisono_group* group, int32_t rank, int32_t* global_rank);

/// Writes the rank within the group of a process of the world; -1 if it is not a member.
UNISONO_C_API unisono_status unisono_group_rank_of(unisono_group* group, int32_t global_rank, int32_t* rank);

/// Writes the ranks of all members within the world, in group order.
///
/// @param global_ranks takes as many ranks as the group has members
/// @param capacity the number of ranks that fit there; UNISONO_INVALID_ARGUMENT if it is too small
UNISONO_C_API unisono_status unisono_group_global_ranks(unisono_group* group, int32_t* global_ranks, size_t capacity);

/// Writes the name that errors use: "world", or the members in braces. The text is written as that of
/// unisono_hostname.
UNISONO_C_API unisono_status unisono_group_name(unisono_group* group, char* text, size_t capacity, size_t* length);

/// Writes the name of the backend that carries the group's calls: "native", "tcp". The text is written
/// as that of unisono_hostname.
UNISONO_C_API unisono_status unisono_group_backend(unisono_group* group, char* text, size_t capacity, size_t* length);

/// Ends the group for all its members: their pending and later calls return UNISONO_PEER_FAILED with
/// this reason. The call of a single rank is enough.
UNISONO_C_API unisono_status unisono_group_abort(unisono_group* group, const char* reason);

#ifdef __cplusplus
}
#endif
