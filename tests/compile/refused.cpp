// One wrong call at a time, chosen by -DCASE=<number>: the compiler must refuse it and say why. Case 0 is right and shows that the rest compiles.
#include <map>
#include <string>
#include <vector>

#include "unisono/unisono.h"

using namespace unisono;

void call() {
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
#if CASE == 0
  all_reduce(x);
  all_gather(x, y);
  recv(x, 1);
  int number = constant_number;
  send(7, 1, world(), {.tag = 7});
  send(constant_number, 1);
  recv(number, any_source);
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
  static_cast<void>(batch({P2POp::send(x, 1), P2POp::recv(y, 1)}));
#elif CASE == 1
  all_reduce(truth);
#elif CASE == 2
  recv(truth, 0);
#elif CASE == 3
  all_reduce(text);
#elif CASE == 4
  send(text, 0);
#elif CASE == 5
  all_reduce(std::vector<float>(3));
#elif CASE == 6
  reduce(std::vector<float>(3), 0);
#elif CASE == 7
  all_reduce(constant);
#elif CASE == 8
  recv(constant, 0);
#elif CASE == 9
  static_cast<void>(mean(x));
#elif CASE == 10
  static_cast<void>(gather(x, 0));
#elif CASE == 11
  static_cast<void>(all_gather(x));
#elif CASE == 12
  all_reduce(points);
#elif CASE == 13
  all_gather(truth, y);
#elif CASE == 14
  scan(text);
#elif CASE == 15
  recv(std::vector<float>(3), 0);
#elif CASE == 19
  recv(constant_number, 0);
#elif CASE == 20
  recv(7, 0);
#elif CASE == 21
  isend(7, 0).wait();
#elif CASE == 22
  static_cast<void>(recv<int>(0, 7));
#elif CASE == 23
  recv_resized(points, 0);
#elif CASE == 24
  std::span<float> fixed(x);
  recv_resized(fixed, 0);
#elif CASE == 25
  send(points[0], 0);
#elif CASE == 16
  DistributedProxySampler proxy(DistributedSampler(3));
#elif CASE == 17
  DistributedProxySampler proxy(Endless{});
#elif CASE == 18
  DistributedProxySampler proxy(Sized{});
#elif CASE == 40
  all_gather(x, constant);
#elif CASE == 41
  all_reduce(x, constant);
#elif CASE == 42
  all_gather_v(x, constant, {3});
#elif CASE == 43
  all_gather_v(x, std::span(y));
#elif CASE == 44
  gather_v(truth, y, {3});
#elif CASE == 45
  gather_v(x, truth);
#elif CASE == 46
  scatter_v(x, {3}, constant);
#elif CASE == 47
  all_to_all_v(text, {3}, y, {3});
#elif CASE == 60
  static_cast<void>(all_gather_object(points));
#elif CASE == 61
  broadcast_object_list(points);
#elif CASE == 62
  static_cast<void>(broadcast(points[0], 0));
#elif CASE == 63
  struct Base {
    int x = 0;
    UNISONO_FIELDS(x)
  };
  struct Derived : Base {
    int y = 0;
  };
  static_cast<void>(all_gather_object(Derived{}));
#elif CASE == 64
  struct Holder {
    int* pointer = nullptr;
    UNISONO_FIELDS(pointer)
  };
  static_cast<void>(all_gather_object(Holder{}));
#elif CASE == 90
  all_reduce(x, "sum");
#elif CASE == 91
  all_reduce(x, ReduceOp::sum, new_group({0, 1}));
#elif CASE == 92
  all_reduce(x, world());
#elif CASE == 93
  send(x, 1, 7);
#elif CASE == 94
  recv(x, any_source, 7);
#elif CASE == 95
  std::map<std::string, float> losses;
  auto averages = average_across_processes(losses);
#elif CASE == 96
  auto averages = average_across_processes(x);
#elif CASE == 97
  all_reduce(x, new_group({0, 1}));
#elif CASE == 98
  static_cast<void>(all_reduce_async(x, text));
#elif CASE == 99
  reduce(x, 0, "max");
#elif CASE == 100
  reduce_scatter(x, y, "sum");
#elif CASE == 101
  all_gather(x, y, new_group({0, 1}));
#elif CASE == 102
  broadcast(x, 0, new_group({0, 1}));
#elif CASE == 103
  barrier(new_group({0, 1}));
#elif CASE == 104
  all_reduce(x, ReduceOp::sum, CallOptions{.tag = 1});
#elif CASE == 105
  static_cast<void>(all_reduce(1.0F, "sum"));
#elif CASE == 106
  all_reduce(x, 3);
#elif CASE == 107
  all_reduce(x, y, ReduceOp::sum, new_group({0, 1}));
#elif CASE == 70
  struct Dictionary : std::map<std::string, int> {};
  static_cast<void>(all_gather_object(Dictionary{}));
#elif CASE == 80
  spawn({}, [] { return Point{1, 2}; });
#elif CASE == 81
  launch([] { return Point{1, 2}; });
#elif CASE == 82
  Parallel().run([](int) { return Point{1, 2}; });
#elif CASE == 65
  std::map<std::string, std::map<std::string, float>> nested;
  average_across_processes(nested);
#elif CASE == 66
  const std::map<std::string, std::vector<float>> settled;
  all_reduce_dict(settled);
#elif CASE == 67
  average_across_processes(text);
#elif CASE == 68
  average_across_processes(constant);
#elif CASE == 69
  all_reduce_params(text);
#endif
}
