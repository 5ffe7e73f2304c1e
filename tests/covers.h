#pragma once

#include <initializer_list>

// COVERS("T-36", "X-06"), a statement within a test: the test covers these rows of features/rows.txt. Any rank may say it. It is written to
// <build>/coverage only when the test has passed, and scripts/check/feature-coverage counts nothing else.
// COVERS_ON_GPU says the same of what only a GPU, or its stand-in, can show.
namespace coverage {

enum class Where { here, gpu };

void covers(std::initializer_list<const char*> rows, Where where);

}  // namespace coverage

#define COVERS(...) ::coverage::covers({__VA_ARGS__}, ::coverage::Where::here)
#define COVERS_ON_GPU(...) ::coverage::covers({__VA_ARGS__}, ::coverage::Where::gpu)
