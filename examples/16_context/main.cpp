// unisono/context.h: a program joins its job and asks about it.
#include <unisono/unisono.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <sstream>
#include <string>

#include "../arguments.h"

constexpr const char* about = "How a program joins its job, and what it then knows of it.";

int main(int argc, char** argv) {
  if (const int code = ended_by_arguments(argc, argv, about); code >= 0) return code;
  using namespace std::chrono_literals;
  try {
    // Before initialize a program may ask who started it, and whether it has joined.
    const bool launched = unisono::infer_launcher() != unisono::Launcher::none;
    const bool before = unisono::is_initialized();

    const bool is_told = unisono::launcher_local_rank().has_value();  // which of this host's processes it is
    if (!is_told) unisono::set_local_rank(0);                         // for a launcher that does not tell
    const bool by_torchrun = unisono::is_torchelastic_launched();
    const bool has_tcp = unisono::is_backend_available("tcp");
    const std::size_t backends = unisono::available_backends().size();

    // A library that has formed the job already is asked by a probe, and sync joins what it has formed. Here there is none.
    unisono::register_context_probe([] { return std::optional<unisono::InitOptions>(); });
    unisono::sync();

    // A scheme of the program's own for init_method, where processes meet in a place that only the program knows.
    unisono::register_rendezvous_handler("nowhere", [](const unisono::InitOptions&) {
      return unisono::Rendezvous{.store = std::make_shared<unisono::MemoryStore>(), .rank = 0, .world_size = 1};
    });

    unisono::initialize({.backend = "auto", .timeout = 60s});  // every call of this job takes at most a minute
    const auto [rank, world_size] = unisono::dist_info();
    const bool first_of_host = unisono::local_rank() == 0;
    const int hosts_first = unisono::all_reduce(first_of_host ? 1 : 0);

    std::ostringstream config;
    unisono::show_config(config);  // ten lines, on rank 0
    int lines = 0;
    for (const char c : config.str()) lines += c == '\n' ? 1 : 0;

    if (rank == 0) {
      std::printf("launched: %s, initialized before: %s\n", launched ? "yes" : "no", before ? "yes" : "no");
      std::printf("%s, backend %s, %d of %d on this host, %d hosts (%d), %d lines\n", unisono::model_name().c_str(),
                  unisono::backend().value_or("none").c_str(), unisono::nproc_per_node(), world_size, unisono::nnodes(), hosts_first, lines);
      std::printf("local rank told: %s, torchrun: %s, tcp: %s, several backends: %s\n", is_told ? "yes" : "no", by_torchrun ? "yes" : "no",
                  has_tcp ? "yes" : "no", backends > 1 ? "yes" : "no");
      std::printf("host %d has a name: %s; the first call was %s\n", unisono::node_rank(), unisono::hostname().empty() ? "no" : "yes",
                  unisono::record().front().operation.c_str());
    }
    unisono::finalize();

    if (!launched) {
      unisono::initialize({.init_method = "nowhere://"});
      std::printf("met by the handler: a world of %d\n", unisono::world_size());
      unisono::finalize();
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
