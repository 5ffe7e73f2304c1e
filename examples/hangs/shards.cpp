// Adds up the numbers in the files of a folder, of which each rank reads one: part0.txt, part1.txt …
#include <unisono/unisono.h>

#include <cstdio>
#include <exception>
#include <fstream>
#include <string>

#include "../arguments.h"

constexpr const char* about = "The sum of the numbers in FOLDER/part0.txt, part1.txt … See docs/troubleshooting/six-hangs.md.";

double sum_of(const std::string& path) {
  std::ifstream file(path);
  double sum = 0;
  for (double number = 0; file >> number;) sum += number;
  return sum;
}

int main(int argc, char** argv) {
  if (const int code = ended_by_arguments(argc, argv, about, "[FOLDER]", 1); code >= 0) return code;
  try {
    const std::string folder = argc > 1 ? argv[1] : ".";
    unisono::Context context;
    unisono::barrier();
    const double own = sum_of(folder + "/part" + std::to_string(unisono::rank()) + ".txt");
    const double all = unisono::all_reduce(own);
    if (unisono::rank() == 0) std::printf("%g\n", all);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
