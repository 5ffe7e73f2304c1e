#include "common/commands.h"
#include "common/program.h"

int main(int argc, char** argv) { return unisono::tools::run_program({argv + 1, argv + argc}, unisono::tools::add_bench); }
