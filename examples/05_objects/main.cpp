// unisono/objects.h: ranks exchange structs, strings and containers, as data with their exact types.
#include <unisono/unisono.h>

#include <cstdio>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "../arguments.h"

struct Report {
  std::string host;
  std::vector<double> losses;
  std::optional<int> best_epoch;
  UNISONO_FIELDS(host, losses, best_epoch)
};

constexpr const char* about = "Structs, strings and containers among the ranks.";

int main(int argc, char** argv) {
  if (const int code = ended_by_arguments(argc, argv, about); code >= 0) return code;
  try {
    unisono::Context context;
    const int rank = unisono::rank();

    Report report{"host-" + std::to_string(rank), std::vector<double>(static_cast<std::size_t>(rank), 0.5), {}};
    if (rank % 2 == 0) report.best_epoch = 10 + rank;
    const std::vector<Report> all = unisono::all_gather_object(report);
    if (rank == 0) {
      for (const Report& r : all) std::printf("%s: %zu losses, best epoch %d\n", r.host.c_str(), r.losses.size(), r.best_epoch.value_or(-1));
    }

    // broadcast_object gives rank 0's object to all ranks, here a map.
    std::map<std::string, int> settings;
    if (rank == 0) settings = {{"epochs", 40}, {"batch", 32}};
    unisono::broadcast_object(settings);
    const std::string name = unisono::broadcast(rank == 0 ? std::string("run ä") : std::string());
    const int sum = unisono::all_reduce(settings.at("epochs"));
    if (rank == 0) std::printf("%s: %d\n", name.c_str(), sum);

    // scatter_object gives each rank a string of its own.
    std::vector<std::string> tasks;
    if (rank == 0) {
      for (int r = 0; r < unisono::world_size(); ++r) tasks.push_back("task " + std::to_string(r));
    }
    const std::string task = unisono::scatter_object(tasks);
    if (rank + 1 == unisono::world_size()) std::printf("the last rank has %s\n", task.c_str());

    // A list that becomes as long as rank 0's, the reports of all on one rank, and a report from one rank to another.
    std::vector<std::string> names;
    if (rank == 0) names = {"train", "test"};
    unisono::broadcast_object_list(names);
    if (const auto reports = unisono::gather_object(report)) std::printf("%zu names, %zu reports\n", names.size(), reports->size());
    const int next = (rank + 1) % unisono::world_size(), previous = (rank + unisono::world_size() - 1) % unisono::world_size();
    if (unisono::world_size() > 1) {
      unisono::send_object(report, next);
      const auto received = unisono::recv_object<Report>(previous);
      if (rank == 0) std::printf("a report of %s came\n", received.host.c_str());
    }

    // broadcast_any sends a value whose type the receivers do not know beforehand.
    const auto any = unisono::broadcast_any(rank == 0 ? std::optional<unisono::AnyValue>(2.5F) : std::nullopt);
    if (rank == 0) std::printf("a number: %g\n", static_cast<double>(any.number<float>()));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
