// at::Tensor within objects that travel: through every call that moves objects, and as a value whose type the receiver does not know.
#include "conformance_world.h"
#include "covers.h"

#include <filesystem>
#include <map>

using namespace unisono;
using conformance::value;

namespace {

using Map = std::map<std::string, torch::Tensor>;

/// Tensors of a rank, whose dtype and shape are its own; one of them is undefined.
Map map_of(int r) {
  return {{"x", value({r, 2}, r, r % 2 == 0 ? torch::kBFloat16 : torch::kComplexFloat).t()}, {"n", torch::tensor(r)}, {"none", torch::Tensor()}};
}
void expect_map_of(const Map& map, int r) {
  const Map expected = map_of(r);
  ASSERT_EQ(map.size(), expected.size());
  EXPECT_SAME(map.at("x"), expected.at("x"));
  EXPECT_SAME(map.at("n"), expected.at("n"));
  EXPECT_FALSE(map.at("none").defined());
}

struct Report {
  std::string name;
  std::optional<torch::Tensor> loss;
  std::vector<torch::Tensor> outputs;
  UNISONO_FIELDS(name, loss, outputs)
};

}  // namespace

WORLD_TEST(TorchObjects, TensorsPassThroughEveryCollective) {
  const int n = world_size(), r = rank();
  const auto all = all_gather_object(map_of(r));
  ASSERT_EQ(static_cast<int>(all.size()), n);
  for (int s = 0; s < n; ++s) expect_map_of(all[static_cast<std::size_t>(s)], s);
  for (int root = 0; root < n; ++root) {
    const auto gathered = gather_object(map_of(r), root);
    EXPECT_EQ(gathered.has_value(), r == root);
    for (int s = 0; s < n && gathered; ++s) expect_map_of((*gathered)[static_cast<std::size_t>(s)], s);
    Map map = map_of(r);
    broadcast_object(map, root);
    expect_map_of(map, root);
    torch::Tensor alone = value({r + 1}, r);
    broadcast_object(alone, root);  // takes dtype and shape over, too
    EXPECT_SAME(alone, value({root + 1}, root));
    std::vector<Map> list;
    for (int s = 0; s < n && r == root; ++s) list.push_back(map_of(s));
    expect_map_of(scatter_object(list, root), r);
    std::vector<torch::Tensor> tensors{value({2}, r), torch::Tensor()};
    if (r != root) tensors.clear();
    broadcast_object_list(tensors, root);
    ASSERT_EQ(tensors.size(), 2U);
    EXPECT_SAME(tensors[0], value({2}, root));
    EXPECT_FALSE(tensors[1].defined());
  }
  Report report{
      "rank " + std::to_string(r), r == 0 ? std::nullopt : std::optional(torch::tensor(0.5 * r)), {value({3}, r), value({r}, r, torch::kLong)}};
  const auto reports = all_gather_object(report);
  for (int s = 0; s < n; ++s) {
    const Report& of = reports[static_cast<std::size_t>(s)];
    EXPECT_EQ(of.name, "rank " + std::to_string(s));
    EXPECT_EQ(of.loss.has_value(), s != 0);
    if (of.loss) {
      EXPECT_SAME(*of.loss, torch::tensor(0.5 * s));
    }
    EXPECT_SAME(of.outputs[1], value({s}, s, torch::kLong));
  }
}

MANY_TEST(TorchObjects, TensorsAreSentFromOneToAnother) {
  const int n = world_size(), r = rank();
  for (int s = 0; s < n; ++s) {
    if (r == s) {
      send_object(map_of(r), (r + 1) % n);
    } else if (r == (s + 1) % n) {
      if (s % 2 == 0) {
        expect_map_of(recv_object<Map>(s), s);
      } else {
        Map map;
        EXPECT_EQ(recv_object(map, any_source), s);
        expect_map_of(map, s);
      }
    }
    barrier();
  }
}

WORLD_TEST(TorchObjects, TensorsAreCollectedAsResults) {
  const int n = world_size(), r = rank();
  std::vector<torch::Tensor> part;
  for (int i = 0; i < 3; ++i) part.push_back(value({i + 1}, n * i + r));
  for (const auto via : {CollectVia::communication, CollectVia::shared_dir}) {
    const auto results = collect_results(part, static_cast<std::size_t>(3 * n - 1), {.via = via});
    EXPECT_EQ(results.has_value(), r == 0);
    if (!results) continue;
    ASSERT_EQ(static_cast<int>(results->size()), 3 * n - 1);
    for (int k = 0; k < 3 * n - 1; ++k) EXPECT_SAME((*results)[static_cast<std::size_t>(k)], value({k / n + 1}, k));
  }
}

WORLD_TEST(TorchObjects, ATensorThatCannotBeSentIsAnErrorOnAll) {
  Map map{{"x", rank() == world_size() - 1 ? torch::empty({2}, torch::kMeta) : torch::ones({2})}};
  EXPECT_THROW(static_cast<void>(all_gather_object(map)), InvalidArgument);
  EXPECT_THROW(broadcast_object(map, world_size() - 1), InvalidArgument);
}

// The receivers know nothing of dtype and shape.
WORLD_TEST(TorchObjects, TensorsAreAValueOfAnyKind) {
  COVERS("I-34");
  const int n = world_size();
  for (const auto dtype : conformance::every_dtype) {
    const torch::Tensor x = value({3, 2}, n - 1, dtype).t();
    const std::optional<AnyValue> given = rank() == n - 1 ? std::optional(AnyValue(x)) : std::nullopt;
    EXPECT_SAME(tensor_of(broadcast_any(given, n - 1)), x);
  }
  EXPECT_THROW(static_cast<void>(tensor_of(broadcast_any(rank() == 0 ? std::optional(AnyValue("text")) : std::nullopt))), InvalidArgument);
}
