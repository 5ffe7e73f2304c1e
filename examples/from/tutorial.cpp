// "Writing Distributed Applications with PyTorch" (2018) in C++; tutorial.py has the same lines in Python.
#include <unisono/unisono.h>

#include <cstdio>
#include <vector>

using namespace unisono;

// Messages: send and recv return when the buffer may be used again.
void blocking_messages() {
  std::vector<float> tensor{0};
  if (rank() == 0) {
    tensor[0] += 1;
    send(tensor, 1);
  } else if (rank() == 1) {
    recv(tensor, 0);
    std::printf("rank 1 has received %g\n", tensor[0]);
  }
}

// isend and irecv return at once; the buffer belongs to the library until wait() returns.
void immediate_messages() {
  std::vector<float> tensor{0};
  if (rank() == 0) {
    tensor[0] = 2;
    isend(tensor, 1).wait();
  } else if (rank() == 1) {
    Work request = irecv(tensor, 0);
    request.wait();
    std::printf("rank 1 has received %g, completed: %s\n", tensor[0], request.is_completed() ? "yes" : "no");
  }
}

// A group: its members alone make it and call it. (torch.distributed makes every process call new_group.)
void collective_in_a_group() {
  std::vector<float> tensor{1};
  if (const auto group = new_group({0, 1})) {
    all_reduce(tensor, ReduceOp::sum, *group);
    std::printf("rank %d has the sum %g\n", rank(), tensor[0]);
  }
}

// A message from anybody: recv without a source returns who has sent it.
void message_from_anybody() {
  std::vector<float> tensor(2);
  if (rank() != 0) return send(std::vector<float>{static_cast<float>(rank()), 7}, 0);
  int senders = 0;
  for (int i = 1; i < world_size(); ++i) senders += recv(tensor);
  std::printf("rank 0 has heard ranks that add up to %d\n", senders);
}

// The tutorial's own all_reduce: every rank passes on what it has received, around a ring.
std::vector<float> ring_all_reduce(const std::vector<float>& mine) {
  const int n = world_size(), left = (rank() + n - 1) % n, right = (rank() + 1) % n;
  std::vector<float> sum = mine, passed_on = mine, received(mine.size());
  for (int i = 0; i < n - 1; ++i) {
    Work request = isend(passed_on, right);
    recv(received, left);
    for (std::size_t j = 0; j < sum.size(); ++j) sum[j] += received[j];
    request.wait();
    passed_on = received;
  }
  return sum;
}

void run() {
  blocking_messages();
  immediate_messages();
  collective_in_a_group();
  message_from_anybody();
  barrier();  // so that rank 0 takes no message of the ring for one from anybody
  const auto own = static_cast<float>(rank());
  const std::vector<float> sum = ring_all_reduce({own, 10 * own});
  std::printf("rank %d has %g %g from the ring\n", rank(), sum[0], sum[1]);
}

// In place of torch.multiprocessing.Process, MASTER_ADDR and init_process_group.
int main() { spawn({.nproc_per_node = 3}, run); }
