// One rank of a job whose others are programs in Python: languages_test.py makes the same calls.

#include <unisono/unisono.h>

#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace {

void check(bool is_so, const char* what) {
  if (is_so) return;
  std::printf("wrong: %s\n", what);
  std::exit(1);
}

template <class T>
void same_as_python(T own) {
  std::vector<T> x(1000);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(static_cast<int>(i % 7) + unisono::rank());
  unisono::all_reduce(x);
  const int n = unisono::world_size(), ranks = n * (n - 1) / 2;
  for (std::size_t i = 0; i < x.size(); ++i) check(x[i] == static_cast<T>(static_cast<int>(i % 7) * n + ranks), "all_reduce");
  const T total = unisono::all_reduce(own);
  check(total == static_cast<T>(n * (n + 1) / 2), "all_reduce of a number");
}

void blocks_and_dictionaries() {
  const int rank = unisono::rank(), size = unisono::world_size();
  std::vector<float> mine(3, static_cast<float>(rank)), all(3 * static_cast<std::size_t>(size));
  unisono::all_gather(mine, all);
  check(all[3] == 1, "all_gather");
  std::vector<int> rows(static_cast<std::size_t>(rank) + 1, rank), gathered;
  check(unisono::all_gather_v(rows, gathered) == std::vector<std::size_t>({1, 2}), "all_gather_v");
  check(unisono::mean(rank + 0.5) == size / 2.0, "mean");
  check(unisono::sync_random_seed() < 0x80000000U, "sync_random_seed");
  std::map<std::string, std::vector<float>> entries{{"a", {1, 2}}, {"b", {3}}};
  unisono::all_reduce_dict(entries);
  check(entries["b"][0] == 3.0F * static_cast<float>(size), "all_reduce_dict");
}

void messages_and_groups() {
  const int rank = unisono::rank(), size = unisono::world_size();
  std::vector<float> mine(3, static_cast<float>(rank));
  if (rank == 0) {
    unisono::send(mine, 1, unisono::world(), {.tag = 5});
    check(unisono::recv<std::vector<float>>(1).size() == 7, "recv");
  } else {
    std::vector<float> x(3);
    unisono::recv(x, 0, unisono::world(), {.tag = 5});
    unisono::send(std::vector<float>(7), 0);
  }
  const auto half = unisono::split_group(unisono::world(), 0, -rank);
  check(half->global_rank(0) == size - 1, "split_group");
  unisono::barrier(*half);
  { const unisono::OneRankFirst first; }
}

void values() {
  const int rank = unisono::rank();
  // Kinds of values that both languages know travel between them.
  const auto text = unisono::broadcast_any(rank == 0 ? std::optional<unisono::AnyValue>("from C++") : std::nullopt, 0);
  check(text.is_string(), "broadcast_any");
  const auto tensor = unisono::broadcast_any(std::nullopt, 1);
  check(tensor.is_tensor() && tensor.elements<float>().size() == 6 && tensor.shape().size() == 2, "broadcast_any of an array");
  check(unisono::broadcast_any(std::nullopt, 1).number<double>() == 2.5, "broadcast_any of a number");
  check(unisono::broadcast_any(std::nullopt, 1).path() == std::filesystem::path("/tmp/x"), "broadcast_any of a path");
}

void differences() {
  const int rank = unisono::rank();
  std::vector<float> mine(3, static_cast<float>(rank));
  // What differs is a Mismatch on both, and so is an object of the other language.
  try {
    unisono::all_reduce(mine, unisono::ReduceOp::max);
    check(false, "a Mismatch");
  } catch (const unisono::Mismatch&) {
  }
  try {
    static_cast<void>(unisono::all_gather_object(std::string("x")));
    check(false, "a Mismatch of objects");
  } catch (const unisono::Mismatch& error) {
    check(std::string(error.what()).find("Python") != std::string::npos, error.what());
  }
}

void objects_of_the_other() {
  if (unisono::rank() == 0) {
    for (int i = 0; i < 2; ++i) {  // a small one, and one with messages of its own
      try {
        static_cast<void>(unisono::recv_object<std::string>(1));
        check(false, "a Mismatch of an object that was sent");
      } catch (const unisono::Mismatch&) {
      }
    }
    unisono::send_object(std::string("x"), 1);
    check(unisono::recv<std::vector<int>>(1) == std::vector<int>({1, 2}), "a message after them");
  }
}

// Objects of Python as another version of the package would write them.
void objects_of_another_version() {
  namespace detail = unisono::detail;
  const std::string name = "an object of Python (pickled, format 0)";
  const detail::ObjectType older{name, detail::fingerprint_of(name)};
  try {
    static_cast<void>(detail::all_gather_parcels("all_gather_object", older, {}, unisono::world(), {}));
    check(false, "a Mismatch of formats");
  } catch (const unisono::Mismatch&) {
  }
  unisono::ObjectWriter out;
  out.array(2);
  out.write(older.fingerprint, std::uint64_t{0});
  detail::send_parcel(out.take(), 1, unisono::world(), {});
}

// What both languages have of an elastic job's state: buffers, and bytes that the program writes. Objects differ.
void states() {
  const int rank = unisono::rank();
  std::vector<float> weights(3, static_cast<float>(rank));
  std::string text = "from C++";
  unisono::ElasticState state;
  state.buffer("weights", weights)
      .bytes(
          "text",
          [&] {
            const auto bytes = std::as_bytes(std::span(text));
            return std::vector<std::byte>(bytes.begin(), bytes.end());
          },
          [&](std::span<const std::byte> bytes) -> std::function<void()> {
            return [&text, taken = std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size())] { text = taken; };
          });
  state.step = 4;
  check(unisono::synchronize(state) == 1 && state.step == 5 && weights[2] == 1 && text == "from Python", "synchronize from Python");
  weights.assign(3, 0.5F);
  text = "from C++";
  state.step = 6;
  check(unisono::synchronize(state) == 0, "synchronize from C++");
  std::int64_t number = 1;
  state.object("number", number);
  try {
    unisono::synchronize(state);
    check(false, "a Mismatch of the objects of a state");
  } catch (const unisono::Mismatch& error) {
    check(std::string(error.what()).find("an object of Python") != std::string::npos, error.what());
  }
}

void samplers() {
  unisono::DistributedSampler sampler(20, {.num_replicas = 3, .rank = 1, .seed = 5});
  sampler.set_epoch(4);
  std::string line;
  for (const std::size_t index : sampler) line += std::to_string(index) + " ";
  std::vector<char> order(line.begin(), line.end());
  unisono::send(order, 1);
  unisono::barrier();
}

}  // namespace

int main() {
  const unisono::Context context;
  const int rank = unisono::rank();
  same_as_python(std::int64_t{rank + 1});
  same_as_python(static_cast<double>(rank + 1));
  same_as_python(static_cast<float>(rank + 1));
  same_as_python(static_cast<std::int8_t>(rank + 1));
  same_as_python(std::complex<double>(rank + 1));
  blocks_and_dictionaries();
  messages_and_groups();
  values();
  differences();
  objects_of_the_other();
  objects_of_another_version();
  states();
  samplers();
  std::puts("fine");
}
