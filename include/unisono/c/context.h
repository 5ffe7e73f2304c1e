#pragma once

#include "unisono/c/types.h"

// Joining a job and leaving it, and what a process knows of its job.
//
// A process that was not launched is rank 0 of 1 and need not call unisono_initialize. In one that was
// launched the functions from unisono_rank on return UNISONO_NOT_INITIALIZED before.

#ifdef __cplusplus
extern "C" {
#endif

/// Joins the job. Every process of the job calls it, and it returns once all have. A call that fails
/// leaves nothing behind and may be repeated.
///
/// @param header_version UNISONO_HEADER_VERSION, as the program was compiled with it. Until 1.0 the
///   library serves the headers of its own minor version alone, and UNISONO_WRONG_VERSION tells which
///   they are.
/// @param options may be NULL: everything comes from the launcher
///
/// UNISONO_ALREADY_INITIALIZED: the process has joined a job already. UNISONO_TIMEOUT: some ranks did
/// not come within 120 s, or within the timeout that was set. UNISONO_BACKEND_UNAVAILABLE: the sentence
/// says what is missing.
UNISONO_C_API unisono_status unisono_initialize(uint32_t header_version, const unisono_init_options* options);

/// Leaves the job: waits at most 10 s for operations under way, and tells the peers. A second call does
/// nothing. Groups of the program's own stay to be freed.
///
/// A rank that ends without it, after it has joined, is a failed one for the others and for the
/// launcher.
UNISONO_C_API unisono_status unisono_finalize(void);

/// Returns 1 if this process has joined a job, and 0 if not. Never fails.
UNISONO_C_API int32_t unisono_is_initialized(void);

/// Writes the rank of this process in the world, from 0 to the world's size - 1.
UNISONO_C_API unisono_status unisono_rank(int32_t* rank);
/// Writes the number of processes of the job.
UNISONO_C_API unisono_status unisono_world_size(int32_t* size);
/// Writes the number of this process among those of its host, from 0.
UNISONO_C_API unisono_status unisono_local_rank(int32_t* rank);
/// Writes the number of processes of this host.
UNISONO_C_API unisono_status unisono_nproc_per_node(int32_t* number);
/// Writes the number of hosts.
UNISONO_C_API unisono_status unisono_nnodes(int32_t* number);
/// Writes the number of this host, from 0, in the order of each host's lowest rank.
UNISONO_C_API unisono_status unisono_node_rank(int32_t* rank);

/// Writes the name of this host.
///
/// @param text takes `capacity` bytes, the 0 at the end among them; NULL if `capacity` is 0
/// @param length is set to the bytes of the text without the 0, even if the text does not fit; may be
///   NULL
///
/// UNISONO_INVALID_ARGUMENT: the text does not fit; nothing of it is written.
UNISONO_C_API unisono_status unisono_hostname(char* text, size_t capacity, size_t* length);

/// Writes the backend of the world, "native" for instance; "" in a process that is alone. The text is
/// written as that of unisono_hostname.
UNISONO_C_API unisono_status unisono_backend(char* text, size_t capacity, size_t* length);

/// Writes 1 if a backend can be used here, and 0 if not.
UNISONO_C_API unisono_status unisono_is_backend_available(const char* name, int32_t* is_available);

/// Returns the version of the library: 1000000 * major + 1000 * minor + patch. Never fails.
UNISONO_C_API uint32_t unisono_version(void);

/// Returns the version of the library as text: "0.1.0". It lasts as long as the process.
UNISONO_C_API const char* unisono_version_text(void);

#ifdef __cplusplus
}
#endif
