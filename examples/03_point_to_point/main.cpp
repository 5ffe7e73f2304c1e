// unisono/point_to_point.h: every rank passes values to the next, and rank 0 takes messages in the order in which they come.
#include <unisono/unisono.h>

#include <array>
#include <cstdio>
#include <exception>
#include <vector>

#include "../arguments.h"

constexpr const char* about = "Messages between ranks: a token travels round the ring, and rank 0 takes messages as they come.";

int main(int argc, char** argv) {
  if (const int code = ended_by_arguments(argc, argv, about); code >= 0) return code;
  try {
    unisono::Context context;
    const int rank = unisono::rank();
    const int ranks = unisono::world_size();
    if (ranks == 1) {
      std::printf("nobody to talk to\n");
      return 0;
    }

    // send_recv sends and receives at once, so a ring of ranks cannot block itself.
    std::vector<double> mine(1000, rank), left(1000);
    unisono::send_recv(mine, (rank + 1) % ranks, left, (rank + ranks - 1) % ranks);
    if (rank == 0) std::printf("rank 0 got %g from its left\n", left[999]);

    // A small message is on its way when send returns, whether or not its receiver has come.
    const std::array<int, 1> square{rank * rank};
    if (rank != 0) unisono::send(square, 0, unisono::world(), {.tag = 7});
    if (rank == 0) {
      int sum = 0;
      std::array<int, 1> received{};
      for (int i = 1; i < ranks; ++i) {
        const int sender = unisono::recv(received, unisono::any_source, unisono::world(), {.tag = 7});
        if (received[0] == sender * sender) sum += received[0];
      }
      std::printf("squares of the others: %d\n", sum);
    }

    // A receiver that does not know the length asks for it, or lets the vector become as long as the message.
    if (rank == 1) unisono::send(std::vector<long>(5, 11L), 0, unisono::world(), {.tag = 8});
    if (rank == 1) unisono::send(std::vector<long>(4, 12L), 0, unisono::world(), {.tag = 9});
    if (rank == 0) {
      const unisono::MessageInfo next = unisono::probe(1, unisono::world(), {.tag = 8});                        // waits, and takes nothing
      const bool is_there = unisono::try_probe(unisono::any_source, unisono::world(), {.tag = 8}).has_value();  // does not wait
      std::vector<long> first(next.count), second;
      unisono::recv(first, next.source, unisono::world(), {.tag = 8});
      unisono::recv_resized(second, 1, unisono::world(), {.tag = 9});
      std::printf("messages of %zu and %zu elements from rank %d, there: %s\n", first.size(), second.size(), next.source, is_there ? "yes" : "no");
    }

    // Several messages are issued together.
    std::vector<float> to(3, static_cast<float>(rank)), from(3);
    const int partner = ranks - 1 - rank;
    if (partner != rank) {
      const std::array operations{unisono::P2POp::send(to, partner), unisono::P2POp::recv(from, partner)};
      auto works = unisono::batch(operations);
      unisono::wait_all(works);
      if (rank == 0) std::printf("partner is rank %g\n", static_cast<double>(from[2]));
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
