// unisono/collectives_v.h and unisono/collectives_lists.h: the ranks' blocks differ in length.
#include <unisono/unisono.h>

#include <cstddef>
#include <cstdio>
#include <exception>
#include <numeric>
#include <string>
#include <vector>

#include "../arguments.h"

template <class T>
std::string text(const std::vector<T>& values) {
  std::string line;
  for (const T& value : values) line.append(" ").append(std::to_string(value));
  return line;
}

/// Rank r has a block of r + 1 elements.
std::vector<std::size_t> counts_of(std::size_t ranks) {
  std::vector<std::size_t> counts(ranks);
  std::iota(counts.begin(), counts.end(), std::size_t{1});
  return counts;
}

constexpr const char* about = "Blocks whose length differs from rank to rank, with counts and without.";

int main(int argc, char** argv) {
  if (const int code = ended_by_arguments(argc, argv, about); code >= 0) return code;
  try {
    unisono::Context context;
    const int rank = unisono::rank();
    const auto ranks = static_cast<std::size_t>(unisono::world_size());
    const bool is_last = static_cast<std::size_t>(rank) + 1 == ranks;
    const std::vector<int> own(static_cast<std::size_t>(rank) + 1, rank);

    // Without counts each rank knows its own length only. The vector becomes as long as all blocks.
    std::vector<int> all;
    const std::vector<std::size_t> counts = unisono::all_gather_v(own, all);
    if (rank == 0) std::printf("all_gather_v    %s, counts%s\n", text(all).c_str(), text(counts).c_str());

    // With counts, which all ranks give alike, nothing else is exchanged.
    std::vector<int> collected(rank == 0 ? all.size() : 0), back(own.size()), sums(own.size());
    unisono::gather_v(own, collected, counts, 0);
    unisono::scatter_v(collected, counts, back, 0);
    unisono::reduce_scatter_v(all, counts, sums);
    if (is_last) std::printf("the last rank's block%s comes back as%s, its sums are%s\n", text(own).c_str(), text(back).c_str(), text(sums).c_str());

    // Rank r sends r + 1 elements to each rank, and gets s + 1 from rank s.
    const std::vector<std::size_t> sent(ranks, own.size());
    const std::vector<int> out(ranks * own.size(), 10 * rank);
    std::vector<int> in;
    const auto received = unisono::all_to_all_v(out, sent, in);
    if (is_last) std::printf("all_to_all_v    %s, counts%s\n", text(in).c_str(), text(received).c_str());

    // They return at once under these names. The buffers belong to the library until the Work is done.
    std::vector<int> all_later(all.size()), collected_later(all.size()), back_later(own.size()), sums_later(own.size()), in_later(in.size());
    std::vector<unisono::Work> works;
    works.push_back(unisono::all_gather_v_async(own, all_later, counts));
    works.push_back(unisono::gather_v_async(own, collected_later, counts, 0));
    works.push_back(unisono::scatter_v_async(all, counts, back_later, 0));
    works.push_back(unisono::reduce_scatter_v_async(all, counts, sums_later));
    works.push_back(unisono::all_to_all_v_async(out, sent, in_later, counts_of(ranks)));
    unisono::wait_all(works);
    const bool is_same = all_later == all && back_later == own && sums_later == sums && in_later == in && (rank != 0 || collected_later == all);
    if (rank == 0) std::printf("later           %s\n", is_same ? "the same" : "something else");

    // Lists in place of one long vector: an element for each rank, of any length.
    const std::vector<std::vector<int>> list = unisono::all_gather_list(own);
    if (const auto on_rank_0 = unisono::gather_list(own)) std::printf("lists           %zu and %zu\n", list.back().size(), on_rank_0->size());
    const std::vector<int> mine = unisono::scatter_list(list, 0);
    if (is_last) std::printf("scatter_list    %s\n", text(mine).c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
