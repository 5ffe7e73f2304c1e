// Programs include the headers in any order, also behind inline functions that call.
#include "unisono/collectives.h"

inline auto all_numbers(const unisono::ProcessGroup& group) { return unisono::all_gather(5UL, group); }
inline auto numbers_at_root(const unisono::ProcessGroup& group) { return unisono::gather(5UL, 0, group); }
inline auto sum(const unisono::ProcessGroup& group) { return unisono::all_reduce(5UL, unisono::ReduceOp::sum, group); }

#include <string>
#include <vector>

#include "unisono/objects.h"

std::vector<std::string> words(const unisono::ProcessGroup& group) { return unisono::all_gather(std::string("word"), group); }
unsigned long number(const unisono::ProcessGroup& group) { return all_numbers(group).front() + numbers_at_root(group)->size() + sum(group); }
