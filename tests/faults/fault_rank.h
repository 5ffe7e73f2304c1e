#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "unisono/context.h"

namespace unisono::testing {

/// Writes a line at once.
void say(const std::string& text);
/// "ready PID JOB"
void say_ready();
/// "1,3"
std::string list(const std::vector<int>& ranks);
bool contains(const std::string& ranks, int rank);
/// "PeerFailed cause=killed culprit=1 host=… rank=0 op=… group=… seq=… what: …"
std::string describe_current_exception();
/// The test says go with SIGUSR1, which is held back from now on.
void block_go();
void wait_for_go();
[[noreturn]] void rest();
void no_core();
/// Sums of the ranks in round k, other numbers in every element and round. Throws std::logic_error where one is wrong.
void check_round(std::vector<float>& x, int k);
/// Says the error that is being handled, and whether five later calls throw the same at once. 3, as the exit code.
int report_failure(std::chrono::steady_clock::time_point since);
/// TEST_INIT_METHOD, TEST_INIT_BACKEND, TEST_INIT_RANK, TEST_INIT_WORLD_SIZE, TEST_INIT_TIMEOUT_MS; TEST_SILENCE_MS is the patience with stopped
/// peers, TEST_STORE_FILE and TEST_STORE_PORT name a store of the test in place of a
/// method.
InitOptions options_from_environment();

/// Modes about initialize, finalize, fork and exit; nullopt for a mode that is none of them.
std::optional<int> run_lifetime_mode(const std::string& mode, const std::string& first, const std::string& second);
/// A mode about the store in which the ranks met.
std::optional<int> run_store_mode(const std::string& mode, const std::string& first);
/// The mode of elastic jobs, by all words of the command; nullopt for another mode.
std::optional<int> run_elastic_mode(const std::vector<std::string>& words);
/// Modes of rows of the matrix that need a rank of their own.
std::optional<int> run_matrix_mode(const std::string& mode, const std::string& first, const std::string& second);
/// Modes about forming groups.
std::optional<int> run_group_mode(const std::string& mode, const std::string& first, const std::string& second);
/// Modes that do the same many times.
std::optional<int> run_growth_mode(const std::string& mode, const std::string& first, const std::string& second);

}  // namespace unisono::testing
