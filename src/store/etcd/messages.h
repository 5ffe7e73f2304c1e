#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "store/etcd/gateway.h"

namespace unisono::store::etcd {

std::string to_base64(std::string_view bytes);
/// Throws std::runtime_error for anything else.
std::string from_base64(std::string_view text);

// The requests to the gateway of etcd and its answers, as JSON. Keys and values are base64, numbers of 64 bits are texts, and fields with the value 0
// are left out. The functions that read an answer throw std::exception where it is another one than etcd's.

std::string request_of(const Transaction& transaction);
Answer read_answer(std::string_view body, const Transaction& transaction);

/// `ID` and `TTL` of an answer about a lease, which may be in the only line of a stream.
struct LeaseAnswer {
  std::int64_t id = 0, seconds = 0;
};
LeaseAnswer read_lease(std::string_view body);

/// A watch of all keys from the first to the last of these. A stream takes one request alone: once the gateway has begun to answer, it may not read
/// any further.
std::string watch_request(const std::set<std::string>& keys, std::int64_t from);
/// Removes from `keys` those that a line of the stream says to be set.
Failure read_events(std::string_view line, std::set<std::string>& keys, bool& begun);

/// The reason why a request was not carried out: from the status and the body of an answer.
Failure read_failure(long status, std::string_view body);

}  // namespace unisono::store::etcd
