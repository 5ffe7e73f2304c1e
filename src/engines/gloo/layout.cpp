// CMake asks whether this compiles, and leaves the plug-in out where it does not.

#include "layout.h"

int main() {}
