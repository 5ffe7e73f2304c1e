// A rank of a program that has loaded an MPI by a path of its own, as mpi4py does, and does not initialise it.
//
//   beside_rank BACKEND [LIBRARY]...    prints each library of MPI that the process has loaded in the end as "loaded PATH"
#include <dlfcn.h>

#include <fstream>
#include <iostream>
#include <set>
#include <stdexcept>
#include <string>

#include "unisono/unisono.h"

namespace {

void print_loaded() {
  std::ifstream maps("/proc/self/maps");
  std::set<std::string> paths;
  for (std::string line; std::getline(maps, line);) {
    const auto path = line.find('/');
    const auto file = line.rfind('/');
    if (path != std::string::npos && line.compare(file, 7, "/libmpi") == 0) paths.insert(line.substr(path));
  }
  std::string text;
  for (const auto& path : paths) text.append("loaded ").append(path).append("\n");
  std::cout << text << std::flush;
}

void run(const std::string& backend) {
  unisono::initialize(backend);
  const int size = unisono::world_size();
  if (unisono::backend() != backend) throw std::logic_error("another backend");
  if (unisono::all_reduce(unisono::rank() + 1) != size * (size + 1) / 2) throw std::logic_error("all_reduce");
  print_loaded();
  unisono::finalize();
  std::cout << std::string("fine of ").append(std::to_string(size)).append("\n") << std::flush;
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 2; i < argc; ++i) {
    if (::dlopen(argv[i], RTLD_NOW | RTLD_LOCAL) != nullptr) continue;
    std::cerr << ::dlerror() << "\n";
    return 2;
  }
  try {
    run(argc > 1 ? argv[1] : "");
  } catch (const unisono::BackendUnavailable& error) {
    print_loaded();
    std::cerr << std::string("BackendUnavailable: ").append(error.what()).append("\n");
    return 4;
  } catch (const std::exception& error) {
    std::cerr << std::string("wrong: ").append(error.what()).append("\n");
    return 1;
  }
  return 0;
}
