// unisono/store.h: several processes share keys and values, with deadlines. Here the store is a file that every rank opens.
#include <unisono/unisono.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <unistd.h>

#include "../arguments.h"

constexpr const char* about = "Keys and values that several processes share, with deadlines.";

int main(int argc, char** argv) {
  if (const int code = ended_by_arguments(argc, argv, about); code >= 0) return code;
  using namespace std::chrono_literals;
  try {
    unisono::Context context;
    const int pid = unisono::broadcast(static_cast<int>(::getpid()));  // rank 0's process number names the file
    const auto path = std::filesystem::temp_directory_path() / ("unisono-example-" + std::to_string(pid));
    {
      unisono::PrefixStore store("example/", std::make_shared<unisono::FileStore>(path));
      store.set("rank/" + std::to_string(unisono::rank()), "here");
      const auto arrived = store.add("arrived", 1);  // adds atomically and returns the new value
      if (arrived == unisono::world_size()) store.set("complete", "yes");
      const std::string complete = store.get("complete", 10s);  // waits until another rank has set it
      if (unisono::rank() == 0)
        std::printf("complete: %s, the last is %s\n", complete.c_str(), store.get("rank/" + std::to_string(unisono::world_size() - 1)).c_str());

      try {
        static_cast<void>(store.get("nobody sets this", 1ms));
      } catch (const unisono::Timeout& error) {
        if (unisono::rank() == 0) std::printf("not there in time\n");
      }
    }
    unisono::barrier();
    if (unisono::rank() == 0) std::filesystem::remove(path);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
