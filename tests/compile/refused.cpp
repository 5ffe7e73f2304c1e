// The file has one wrong call for each -DCASE=<number>: the compiler must refuse it and say why. Case 0 is right and shows that the rest compiles.
#include <map>
#include <string>
#include <vector>

#include "unisono/unisono.h"

using namespace unisono;

namespace {

std::vector<float> x(3), y(3);
std::vector<bool> truth(3);
std::string text = "abc";
const std::vector<float> constant(3);
struct Point {
  float x, y;
};
std::vector<Point> points(3);
const int constant_number = 7;
struct Endless {
  std::vector<std::size_t> draw(SamplerEngine&) { return {}; }
};
struct Sized {
  std::size_t size() const { return 1; }
};

}  // namespace

#if CASE == 0
void call() {
  all_reduce(x);
  all_gather(x, y);
  recv(x, 1);
  int number = constant_number;
  send(7, 1, world(), {.tag = 7});
  send(constant_number, 1);
  recv(number, any_source);
  number = recv(x) + recv(number) + recv<int>();
  x = recv<std::vector<float>>();
  irecv(x).wait();
  launch([](int) {}, {.num_gpus_per_machine = 2}, 7);
  launch([](int) {}, {}, 7);
  launch([] {}, 1, 2);
  number = recv<int>(1) + recv<int>(any_source, world(), {.tag = any_tag}) + send_recv(number, 1, number) + send_recv(number, 1, number, world());
  send_recv(number, 1, number, number);
  x = recv<std::vector<float>>(number);
  isend(constant_number, 1).wait();
  irecv(number, 1).wait();
  static_cast<void>(mean(1.0F));
  static_cast<void>(broadcast(text, 0));
  static_cast<void>(all_gather("literal"));
  static_cast<void>(all_gather_object(truth));
  all_gather_v(x, y, {3});
  all_gather_v(x, y, {}, world());
  gather_v(x, y, {3}, 0);
  gather_v(x, y, 0, world(), {.timeout = std::chrono::seconds(1)});
  all_to_all_v(x, {0}, y, world());
  DistributedProxySampler(std::vector<std::size_t>(3)).set_epoch(1);
  std::map<std::string, float> losses;
  average_across_processes(losses);
  average_across_processes(x, world(), {.tag = 1});
  all_reduce(
      x, [](float a, float b) { return a < b ? a : b; }, world());
  all_reduce(x, y, ReduceOp::sum, world(), {.tag = 1});
  send(x, 1, world(), {.tag = 7});
  std::vector<int> in(4), out(2), counts(2);
  scatter_v(in, Counts(counts), out);
  scatter_v(in, {2, 2}, out);
  scatter_v(x, counts, y);
  reduce_scatter_v(in, std::vector<std::size_t>{2, 2}, out);
  all_reduce(x, std::plus<>());
  static_cast<void>(batch({P2POp::send(x, 1), P2POp::recv(y, 1)}));
}
#elif CASE == 1
void call() { all_reduce(truth); }
#elif CASE == 2
void call() { recv(truth, 0); }
#elif CASE == 3
void call() { all_reduce(text); }
#elif CASE == 4
void call() { send(text, 0); }
#elif CASE == 5
void call() { all_reduce(std::vector<float>(3)); }
#elif CASE == 6
void call() { reduce(std::vector<float>(3), 0); }
#elif CASE == 7
void call() { all_reduce(constant); }
#elif CASE == 8
void call() { recv(constant, 0); }
#elif CASE == 9
void call() { static_cast<void>(mean(x)); }
#elif CASE == 10
void call() { static_cast<void>(gather(x, 0)); }
#elif CASE == 11
void call() { static_cast<void>(all_gather(x)); }
#elif CASE == 12
void call() { all_reduce(points); }
#elif CASE == 13
void call() { all_gather(truth, y); }
#elif CASE == 14
void call() { scan(text); }
#elif CASE == 15
void call() { recv(std::vector<float>(3), 0); }
#elif CASE == 19
void call() { recv(constant_number, 0); }
#elif CASE == 20
void call() { recv(7, 0); }
#elif CASE == 21
void call() { isend(7, 0).wait(); }
#elif CASE == 22
void call() { static_cast<void>(recv<int>(0, 7)); }
#elif CASE == 23
void call() { recv_resized(points, 0); }
#elif CASE == 24
void call() {
  std::span<float> fixed(x);
  recv_resized(fixed, 0);
}
#elif CASE == 25
void call() { send(points[0], 0); }
#elif CASE == 16
void call() { DistributedProxySampler proxy(DistributedSampler(3)); }
#elif CASE == 17
void call() { DistributedProxySampler proxy(Endless{}); }
#elif CASE == 18
void call() { DistributedProxySampler proxy(Sized{}); }
#elif CASE == 40
void call() { all_gather(x, constant); }
#elif CASE == 41
void call() { all_reduce(x, constant); }
#elif CASE == 42
void call() { all_gather_v(x, constant, {3}); }
#elif CASE == 43
void call() { all_gather_v(x, std::span(y)); }
#elif CASE == 44
void call() { gather_v(truth, y, {3}); }
#elif CASE == 45
void call() { gather_v(x, truth); }
#elif CASE == 46
void call() { scatter_v(x, {3}, constant); }
#elif CASE == 47
void call() { all_to_all_v(text, {3}, y, {3}); }
#elif CASE == 60
void call() { static_cast<void>(all_gather_object(points)); }
#elif CASE == 61
void call() { broadcast_object_list(points); }
#elif CASE == 62
void call() { static_cast<void>(broadcast(points[0], 0)); }
#elif CASE == 63
void call() {
  struct Base {
    int x = 0;
    UNISONO_FIELDS(x)
  };
  struct Derived : Base {
    int y = 0;
  };
  static_cast<void>(all_gather_object(Derived{}));
}
#elif CASE == 64
void call() {
  struct Holder {
    int* pointer = nullptr;
    UNISONO_FIELDS(pointer)
  };
  static_cast<void>(all_gather_object(Holder{}));
}
#elif CASE == 90
void call() { all_reduce(x, "sum"); }
#elif CASE == 91
void call() { all_reduce(x, ReduceOp::sum, new_group({0, 1})); }
#elif CASE == 92
void call() { all_reduce(x, world()); }
#elif CASE == 93
void call() { send(x, 1, 7); }
#elif CASE == 94
void call() { recv(x, any_source, 7); }
#elif CASE == 95
void call() {
  std::map<std::string, float> losses;
  auto averages = average_across_processes(losses);
}
#elif CASE == 96
void call() { auto averages = average_across_processes(x); }
#elif CASE == 97
void call() { all_reduce(x, new_group({0, 1})); }
#elif CASE == 98
void call() { static_cast<void>(all_reduce_async(x, text)); }
#elif CASE == 99
void call() { reduce(x, 0, "max"); }
#elif CASE == 100
void call() { reduce_scatter(x, y, "sum"); }
#elif CASE == 101
void call() { all_gather(x, y, new_group({0, 1})); }
#elif CASE == 102
void call() { broadcast(x, 0, new_group({0, 1})); }
#elif CASE == 103
void call() { barrier(new_group({0, 1})); }
#elif CASE == 104
void call() { all_reduce(x, ReduceOp::sum, CallOptions{.tag = 1}); }
#elif CASE == 105
void call() { static_cast<void>(all_reduce(1.0F, "sum")); }
#elif CASE == 106
void call() { all_reduce(x, 3); }
#elif CASE == 107
void call() { all_reduce(x, y, ReduceOp::sum, new_group({0, 1})); }
#elif CASE == 70
void call() {
  struct Dictionary : std::map<std::string, int> {};
  static_cast<void>(all_gather_object(Dictionary{}));
}
#elif CASE == 80
void call() {
  spawn({}, [] { return Point{1, 2}; });
}
#elif CASE == 81
void call() {
  launch([] { return Point{1, 2}; });
}
#elif CASE == 82
void call() {
  Parallel().run([](int) { return Point{1, 2}; });
}
#elif CASE == 65
void call() {
  std::map<std::string, std::map<std::string, float>> nested;
  average_across_processes(nested);
}
#elif CASE == 66
void call() {
  const std::map<std::string, std::vector<float>> settled;
  all_reduce_dict(settled);
}
#elif CASE == 67
void call() { average_across_processes(text); }
#elif CASE == 68
void call() { average_across_processes(constant); }
#elif CASE == 69
void call() { all_reduce_params(text); }
#elif CASE == 110
void call() { broadcast(x, world()); }
#elif CASE == 111
void call() { static_cast<void>(broadcast(text, world())); }
#elif CASE == 112
void call() { broadcast_async(x, world()).wait(); }
#elif CASE == 113
void call() { gather(x, y, world()); }
#elif CASE == 114
void call() { scatter(x, y, world()); }
#elif CASE == 115
void call() { reduce(x, world()); }
#elif CASE == 116
void call() { reduce(x, ReduceOp::sum); }
#elif CASE == 117
void call() {
  std::vector<std::string> all;
  all_gather(text, all);
}
#elif CASE == 118
void call() {
  std::vector<std::string> mine, all;
  gather(mine, all);
}
#elif CASE == 119
void call() {
  std::vector<int> in(4), out(2), counts(2);
  scatter_v(in, out, counts);
}
#elif CASE == 120
void call() {
  std::vector<int> in(4), out(2), counts(2);
  reduce_scatter_v(in, counts, out);
}
#elif CASE == 121
void call() {
  std::vector<int> in(4), out(4), counts(2);
  all_to_all_v(in, out, counts, counts);
}
#elif CASE == 122
void call() { broadcast(x, 0, 7); }
#elif CASE == 83
void call() {
  spawn(
      {.nproc_per_node = 2}, [](int epochs, int batch = 32) { return epochs * batch; }, 10);
}
#elif CASE == 84
void call() {
  run_threads(2, [](auto... arguments) { return static_cast<int>(sizeof...(arguments)); });
}
#elif CASE == 130
void call() { all_reduce(x, ReduceOp::sum, {0, 1}); }
#elif CASE == 131
void call() {
  const std::vector<int> ranks{0, 1};
  all_reduce(x, ReduceOp::sum, ranks);
}
#elif CASE == 132
void call() { all_reduce(x, ReduceOp::sum, {0}); }
#elif CASE == 133
void call() { static_cast<void>(all_reduce(1.0F, ReduceOp::sum, {0, 1})); }
#elif CASE == 134
void call() { static_cast<void>(all_reduce_async(x, ReduceOp::sum, {0, 1})); }
#elif CASE == 135
void call() { broadcast(x, 0, {0, 1}); }
#elif CASE == 136
void call() { all_gather(x, y, {0, 1}); }
#elif CASE == 137
void call() { static_cast<void>(all_gather(7, {0, 1})); }
#elif CASE == 138
void call() { barrier({0, 1}); }
#elif CASE == 139
void call() { reduce(x, 0, ReduceOp::sum, {0, 1}); }
#elif CASE == 140
void call() { recv(x, 0, {0, 1}); }
#elif CASE == 141
void call() {
  const std::vector<int> ranks{0, 1};
  send(x, 0, ranks);
}
#elif CASE == 142
void call() { recv(x, world()); }
#elif CASE == 143
void call() {
  launch([](int, int) {}, {.num_gpus_per_machine = 2}, 7);
}
#elif CASE == 144
void call() {
  spawn({}, [](int, int) {});
}
#else
#include "refused_calls.h"
#endif
