// Every call that moves data, in the spellings that are promised: values, buffers, blocks, works, lists of tensors, messages, objects, parameters.

#include <algorithm>
#include <array>
#include <chrono>
#include <complex>
#include <cstdint>
#include <filesystem>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "surface_values.h"
#include "unisono/unisono.h"
#include "world.h"

using namespace unisono;
using namespace std::chrono_literals;
using namespace surface;

namespace {

WORLD_TEST(Surface, CallsTakeValues) {
  EXPECT_EQ(all_reduce(rank() + 1), triangle());
  EXPECT_EQ(all_reduce(number(rank()), ReduceOp::max), number(last()));
  EXPECT_EQ(all_reduce(rank() + 1, [](int a, int b) { return std::max(a, b); }, world(), {.timeout = 30s, .tag = 7}), n());
  EXPECT_EQ(all_reduce(std::complex<float>(1.0F, 2.0F)), std::complex<float>(number(last()), 2.0F * number(last())));
  EXPECT_EQ(all_reduce(bfloat16(2.0F)), 2.0F * number(last()));
  EXPECT_EQ(all_reduce(rank() == 0, ReduceOp::lor), true);
  EXPECT_EQ(mean(rank() + 1), triangle() / static_cast<double>(n()));
  EXPECT_EQ(reduce(rank() + 1, last()), rank() == last() ? std::optional(triangle()) : std::nullopt);
  EXPECT_EQ(broadcast(2.5 * rank(), last()), 2.5 * last());
  EXPECT_EQ(all_gather(10 * rank()), of_each_rank([](int r) { return 10 * r; }));
  EXPECT_EQ(gather(rank()).has_value(), rank() == 0);
  EXPECT_EQ(gather(rank(), last()).has_value(), rank() == last());
  EXPECT_EQ(scan(rank() + 1), (rank() + 1) * (rank() + 2) / 2);
  EXPECT_EQ(exscan(rank() + 1), rank() == 0 ? 1 : rank() * (rank() + 1) / 2);
  EXPECT_EQ(parse_reduce_op("Mean"), ReduceOp::avg);
  barrier();
  barrier(world(), {.timeout = 30s});
  monitored_barrier(30s);
  synchronize();
}

WORLD_TEST(Surface, CallsTakeBuffers) {
  const Floats sums{number(last()) * number(n()) / 2};
  Floats x{number(rank())};
  all_reduce(x);
  EXPECT_EQ(x, sums);
  const std::array<float, 1> in{number(rank())};
  std::array<float, 3> wide{-1, -2, -3};
  all_reduce(in, std::span(wide).subspan(1, 1), ReduceOp::sum, world(), {.timeout = 30s});
  EXPECT_EQ(wide, (std::array<float, 3>{-1, sums[0], -3}));
  x = {number(rank())};
  reduce(x, last());
  EXPECT_EQ(x, rank() == last() ? sums : Floats{number(rank())});
  x = {number(rank())};
  broadcast(x);
  EXPECT_EQ(x, Floats{1});
  Floats all(ranks());
  all_gather(in, all);
  EXPECT_EQ(all, of_each_rank(number));
  Floats none;
  gather(in, rank() == 0 ? all : none);
  Floats mine(1);
  scatter(rank() == 0 ? all : none, mine);
  EXPECT_EQ(mine, Floats{number(rank())});
  reduce_scatter(all, mine, ReduceOp::max);
  EXPECT_EQ(mine, Floats{number(rank())});
  Floats exchanged(ranks());
  all_to_all(Floats(ranks(), number(rank())), exchanged);
  EXPECT_EQ(exchanged, of_each_rank(number));
  x = {1};
  scan(x);
  EXPECT_EQ(x, Floats{number(rank())});
  x = {1};
  exscan(x, ReduceOp::sum);
  EXPECT_EQ(x, Floats{rank() == 0 ? 1 : number(rank() - 1)});
  std::array<std::int64_t, 4> columns{rank(), 10, rank() + 20, 30};
  const std::array<std::int64_t, 1> shape{2}, strides{2};
  all_reduce(TensorView(columns.data(), DType::int64, shape, strides, Device{}), ReduceOp::min);
  EXPECT_EQ(columns, (std::array<std::int64_t, 4>{0, 10, 20, 30}));
  shared_vector<double> shared(5, 1.5);
  all_reduce(shared);
  EXPECT_EQ(shared, shared_vector<double>(5, 1.5 * n()));
  EXPECT_NE(shared_resource(), nullptr);
}

/// Rank r has r + 1 elements, 10 * r and following.
std::vector<int> part(int r) {
  std::vector<int> x(static_cast<std::size_t>(r) + 1);
  std::iota(x.begin(), x.end(), 10 * r);
  return x;
}
std::vector<int> all_parts() {
  std::vector<int> all;
  for (int r = 0; r < n(); ++r) {
    const auto of_one = part(r);
    all.insert(all.end(), of_one.begin(), of_one.end());
  }
  return all;
}

WORLD_TEST(Surface, CallsTakeBlocks) {
  std::vector<std::size_t> counts(ranks());
  std::iota(counts.begin(), counts.end(), 1);
  const std::vector<int> in = part(rank()), all = all_parts();
  std::vector<int> out(all.size()), own(in.size());
  all_gather_v(in, out, std::span<const std::size_t>(counts));
  EXPECT_EQ(out, all);
  all_gather_v(in, out, std::vector<short>(counts.begin(), counts.end()), world(), {.tag = 3});
  EXPECT_EQ(all_gather_v(in, out), counts);
  EXPECT_EQ(out, all);
  std::vector<int> root(all.size());
  gather_v(in, root, counts);
  gather_v(in, root, counts, last(), world());
  EXPECT_EQ(root == all, rank() == 0 || rank() == last());
  EXPECT_EQ(gather_v(in, root), counts);
  EXPECT_EQ(gather_v(in, root, last()), counts);
  scatter_v(all, counts, own);
  EXPECT_EQ(own, in);
  scatter_v(rank() == last() ? all : std::vector<int>{}, counts, own, last());
  EXPECT_EQ(own, in);
  reduce_scatter_v(all, counts, own, ReduceOp::avg);
  EXPECT_EQ(own, in);
  reduce_scatter_v(all, counts, own);
  EXPECT_EQ(own.front(), n() * in.front());
  const std::vector<int> same(ranks() * in.size(), rank());
  const std::vector<std::size_t> to_each(ranks(), in.size());
  all_to_all_v(same, to_each, out, counts);
  std::vector<int> sized;
  EXPECT_EQ(all_to_all_v(same, to_each, sized), counts);
  EXPECT_EQ(out, sized);
  EXPECT_EQ(sized.back(), last());
  if (n() == 2) {
    out.assign(3, -1);
    all_gather_v(in, out, {1, 2});
    EXPECT_EQ(out, all);
    reduce_scatter_v(all, {1, 2}, own, ReduceOp::max);
    EXPECT_EQ(own, in);
    EXPECT_EQ(all_to_all_v(std::vector<int>{rank(), rank()}, {1, 1}, sized), (std::vector<std::size_t>{1, 1}));
  }
}

WORLD_TEST(Surface, AsynchronousCallsReturnWork) {
  const Floats in{number(rank())};
  Floats a = in, b(1), c = in, d = in, e(ranks()), f(ranks()), g(1), h(1), i(ranks()), j = in, k = in;
  const Floats ones(ranks(), 1);
  std::vector<std::size_t> each(ranks(), 1);
  Floats l(ranks()), m(ranks()), o(1), p(1), q(ranks());
  std::vector<Work> works;
  works.push_back(all_reduce_async(a, ReduceOp::max));
  works.push_back(all_reduce_async(in, b));
  works.push_back(reduce_async(c, 0));
  works.push_back(broadcast_async(d, last()));
  works.push_back(all_gather_async(in, e));
  works.push_back(gather_async(in, f, last()));
  works.push_back(scatter_async(ones, g));
  works.push_back(reduce_scatter_async(ones, h));
  works.push_back(all_to_all_async(ones, i));
  works.push_back(scan_async(j, ReduceOp::min));
  works.push_back(exscan_async(k));
  works.push_back(all_gather_v_async(in, l, each));
  works.push_back(gather_v_async(in, m, each));
  works.push_back(scatter_v_async(ones, each, o));
  works.push_back(reduce_scatter_v_async(ones, each, p));
  works.push_back(all_to_all_v_async(ones, each, q, each));
  works.push_back(barrier_async());
  EXPECT_LT(wait_any(works), works.size());
  wait_all(works);
  for (Work& work : works) {
    work.wait();
    EXPECT_TRUE(work.wait_for(1ms));
    EXPECT_TRUE(work.is_completed());
    EXPECT_EQ(work.exception(), nullptr);
    EXPECT_EQ(work.source_rank(), -1);
  }
  EXPECT_EQ(a, Floats{number(last())});
  EXPECT_EQ(b, Floats{static_cast<float>(triangle())});
  EXPECT_EQ(c, rank() == 0 ? b : in);
  EXPECT_EQ(d, a);
  EXPECT_EQ(e, of_each_rank(number));
  EXPECT_EQ(f, rank() == last() ? e : Floats(ranks()));
  EXPECT_EQ(g, Floats{1});
  EXPECT_EQ(h, a);
  EXPECT_EQ(i, ones);
  EXPECT_EQ(j, Floats{1});
  EXPECT_EQ(k, Floats{rank() == 0 ? 1 : static_cast<float>(rank() * (rank() + 1)) / 2});
  EXPECT_EQ(l, e);
  EXPECT_EQ(m, rank() == 0 ? e : Floats(ranks()));
  EXPECT_EQ(o, g);
  EXPECT_EQ(p, a);
  EXPECT_EQ(q, ones);
}

WORLD_TEST(Surface, CallsTakeSeveralTensors) {
  std::vector<int> x{rank(), rank() + 10}, y{rank() + 20, rank() + 30}, wide(4 * ranks()), wider(4 * ranks());
  const auto of = [](std::vector<int>& v) { return TensorView(v.data(), DType::int32, v.size()); };
  std::vector<TensorView> two{of(x), of(y)}, outputs{of(wide), of(wider)};
  all_gather_multigpu(std::span<TensorView>(outputs), std::span<TensorView>(two));
  EXPECT_EQ(wide[static_cast<std::size_t>(4 * last() + 3)], last() + 30);
  EXPECT_EQ(wide, wider);
  reduce_scatter_multigpu(std::span<TensorView>(two), std::span<TensorView>(outputs), ReduceOp::max);
  EXPECT_EQ(x, (std::vector<int>{rank(), rank() + 10}));
  EXPECT_EQ(y, (std::vector<int>{rank() + 20, rank() + 30}));
  reduce_multigpu(std::span<TensorView>(two), last(), ReduceOp::max);
  EXPECT_EQ(x, rank() == last() ? (std::vector<int>{last() + 20, last() + 30}) : (std::vector<int>{rank(), rank() + 10}));
  all_reduce_multigpu(std::span<TensorView>(two), ReduceOp::min);
  EXPECT_EQ(y, x);
  x = {rank(), 5};
  broadcast_multigpu(std::span<TensorView>(two), last());
  EXPECT_EQ(y, (std::vector<int>{last(), 5}));
}

MANY_TEST(Surface, MessagesPassFromPointToPoint) {
  const int to = (rank() + 1) % n(), from = (rank() + last()) % n();
  const Floats out{number(rank())}, expected{number(from)};
  Floats in(1);
  send(out, to);
  EXPECT_EQ(recv(in, from), from);
  EXPECT_EQ(in, expected);
  send(out, to, world(), {.timeout = 30s, .tag = 9});
  EXPECT_EQ(recv(in, any_source, world(), {.tag = 9}), from);
  isend(out, to).wait();
  Work work = irecv(in, from);
  work.wait();
  EXPECT_EQ(work.source_rank(), from);
  EXPECT_EQ(send_recv(out, to, in, from), from);
  in = {0};
  const std::vector<P2POp> both{P2POp::send(out, to), P2POp::recv(in, from)};
  std::vector<Work> works = batch(both);
  wait_all(works);
  EXPECT_EQ(in, expected);
  EXPECT_THROW(send(out, rank()), InvalidArgument);
  send_object(Point{rank(), "sent"}, to);
  EXPECT_EQ(recv_object<Point>(from), (Point{from, "sent"}));
}

WORLD_TEST(Surface, CallsTakeObjects) {
  using Nested = std::map<std::string, std::vector<std::optional<std::pair<int, double>>>>;
  const auto nested = [](int r) { return Nested{{"a", {std::nullopt, std::pair(r, 0.5)}}}; };
  EXPECT_EQ(all_gather_object(nested(rank())), of_each_rank(nested));
  EXPECT_EQ(all_gather_object("x"), std::vector<std::string>(ranks(), "x"));
  EXPECT_EQ(gather_object(Point{rank(), "p"}), rank() == 0 ? std::optional(of_each_rank([](int r) { return Point{r, "p"}; })) : std::nullopt);
  std::variant<int, std::string> either = rank() == last() ? std::variant<int, std::string>("last") : rank();
  broadcast_object(either, last());
  EXPECT_EQ(std::get<std::string>(either), "last");
  std::vector<Colour> list(ranks(), rank() == 0 ? Colour::blue : Colour::red);
  broadcast_object_list(list);
  EXPECT_EQ(list, std::vector<Colour>(ranks(), Colour::blue));
  const auto points = of_each_rank([](int r) { return Point{10 * r, std::to_string(r)}; });
  EXPECT_EQ(scatter_object(rank() == 0 ? points : std::vector<Point>{}), points[static_cast<std::size_t>(rank())]);
  EXPECT_EQ(broadcast("literal"), "literal");
  EXPECT_EQ(broadcast(std::string(1, static_cast<char>('a' + rank())), last()), std::string(1, static_cast<char>('a' + last())));
  EXPECT_EQ(broadcast(std::filesystem::path("/r") / std::to_string(rank()), 0), std::filesystem::path("/r/0"));
  EXPECT_EQ(broadcast(std::chrono::milliseconds(rank() + 4), 0), 4ms);
  EXPECT_EQ(all_gather(std::to_string(rank())), of_each_rank([](int r) { return std::to_string(r); }));
  const AnyValue any = broadcast_any(rank() == last() ? std::optional<AnyValue>(Floats{1, 2}) : std::nullopt, last());
  EXPECT_EQ(any.elements<float>()[1], 2.0F);
  EXPECT_EQ(broadcast_any(rank() == 0 ? std::optional<AnyValue>(std::int16_t{3}) : std::nullopt).number<std::int16_t>(), 3);
}

WORLD_TEST(Surface, CallsTakeParameters) {
  const ProcessGroup group = world();
  std::map<std::string, Floats> map{{"w", {number(rank()), 0}}, {"b", {4}}};
  average_across_processes(map, group);
  EXPECT_EQ(map.at("w"), (Floats{static_cast<float>(triangle()) / static_cast<float>(n()), 0}));
  Floats x{number(rank())};
  average_across_processes(x, group);
  EXPECT_EQ(x[0], map.at("w")[0]);
  EXPECT_EQ(average_across_processes(2.0 * (rank() + 1), group), mean(2.0 * (rank() + 1)));
  std::map<std::string, int> numbers{{"a", rank()}, {"z", 1}};
  all_reduce_dict(numbers);
  EXPECT_EQ(numbers, (std::map<std::string, int>{{"a", triangle() - n()}, {"z", n()}}));
  all_reduce_dict(numbers, ReduceOp::max, group);
  std::vector<Floats> params{{1}, {2, number(rank())}};
  all_reduce_params(params, ParamsOptions{.coalesce = true, .bucket_size_mb = -1, .op = ReduceOp::sum});
  EXPECT_EQ(params, (std::vector<Floats>{{number(last())}, {2 * number(last()), static_cast<float>(triangle())}}));
  all_reduce_params(params, {.coalesce = false, .op = ReduceOp::avg}, group);
  EXPECT_EQ(params[0], Floats{number(last())});
  const std::uint32_t seed = sync_random_seed();
  EXPECT_EQ(all_gather(seed), std::vector<std::uint32_t>(ranks(), seed));
}

WORLD_TEST(Surface, ResultsAreCollected) {
  std::vector<int> mine{rank(), rank() + 100};
  std::vector<int> expected = of_each_rank([](int r) { return r; });
  expected.push_back(100);
  const std::string directory =
      broadcast((std::filesystem::temp_directory_path() / ("unisono-surface-" + std::to_string(sync_random_seed()))).string());
  for (const CollectOptions& how : {CollectOptions{}, CollectOptions{.via = CollectVia::shared_dir, .tmpdir = directory}}) {
    const std::optional<std::vector<int>> results = collect_results(mine, ranks() + 1, how);
    EXPECT_EQ(results, rank() == 0 ? std::optional(expected) : std::nullopt);
  }
  EXPECT_EQ(collect_results(mine, 1, {.via = CollectVia::communication}).has_value(), rank() == 0);
  barrier();
  if (rank() == 0) std::filesystem::remove_all(directory);
}

}  // namespace
